#include "joining/meet.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "joining/notice.h"
#include "net/acceptor.h"

namespace tutti::joining {
namespace {

namespace fs = std::filesystem;

class Meet : public ::testing::Test {
 protected:
  fs::path private_folder() const { return folder_.path() / "private"; }

  fs::path secret_file(const std::string& content = "a secret of some length", mode_t mode = 0600) const {
    const auto path = folder_.path() / "secret";
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }

  static config::Placement placement(int rank, int size) {
    config::Placement p;
    p.launcher = "torchrun";
    p.rank = rank;
    p.size = size;
    p.one_host = true;
    p.host = "127.0.0.1";
    p.job = "127.0.0.1:29500";
    return p;
  }

  // All ranks as threads; what each says is its own number.
  void expect_meeting(int size, const config::JoinSettings& settings, int port = 0) const {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([=, this] {
        auto p = placement(rank, size);
        p.port = port;
        const auto meeting = meet(p, settings, private_folder());
        const auto texts = meeting->all_gather(std::to_string(rank));
        for (int r = 0; r < size; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], std::to_string(r));
      });
    }
    for (auto& r : ranks) r.join();
  }

  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "nothing was refused";
  }

  ScratchFolder folder_;
};

TEST_F(Meet, ProcessesOfOneHostNeedNoSecretOfTheUserAndLeaveNothing) {
  expect_meeting(4, {.timeout_s = 20});
  EXPECT_TRUE(fs::is_empty(private_folder()));
  struct stat about {};
  ASSERT_EQ(::stat(private_folder().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
}

TEST_F(Meet, WhatAKilledJobHasLeftDoesNoHarm) {
  fs::create_directory(private_folder());
  ::chmod(private_folder().c_str(), 0700);
  Notice left(private_folder(), "torchrun 127.0.0.1:29500");
  // Of a process that is gone: nobody holds the file locked, and nobody listens there.
  left.put_up({{"127.0.0.1", 1}, net::make_secret()});
  for (const auto& entry : fs::directory_iterator(private_folder())) {
    fs::copy(entry.path(), private_folder() / "copy");
    fs::rename(private_folder() / "copy", entry.path());
  }
  expect_meeting(3, {.timeout_s = 20});
}

TEST_F(Meet, ASecretFileLeadsToThePortThatTheLauncherNames) {
  boost::asio::io_context io;
  net::Tcp::acceptor free_port(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const int port = free_port.local_endpoint().port();
  free_port.close();
  expect_meeting(3, {.secret_file = secret_file().string(), .timeout_s = 20}, port);
}

TEST_F(Meet, RankZeroThatDoesNotComeIsNamed) {
  const config::JoinSettings settings{.timeout_s = 0.2};
  EXPECT_NE(refusal([&] {
              meet(placement(2, 3), settings, private_folder());
            }).find("rank 2: waited 0 s for rank 0"),
            std::string::npos);
}

TEST_F(Meet, SeveralHostsWithoutASecretAreToldWhatToDo) {
  auto p = placement(1, 3);
  p.one_host = false;
  EXPECT_NE(refusal([&] { meet(p, {}, private_folder()); }).find("in TUTTI_SECRET_FILE"), std::string::npos);
  p.host.clear();
  EXPECT_NE(refusal([&] {
              meet(p, {.secret_file = secret_file().string()}, private_folder());
            }).find("set MASTER_ADDR and MASTER_PORT"),
            std::string::npos);
}

TEST_F(Meet, FolderThatOthersCouldReadOrHaveMadeIsNotUsed) {
  const auto said = [&](const fs::path& path) { return refusal([&] { Notice(path, "job"); }); };
  fs::create_directory(folder_.path() / "open");
  ::chmod((folder_.path() / "open").c_str(), 0755);
  EXPECT_NE(said(folder_.path() / "open").find("has mode 0755"), std::string::npos);
  fs::create_directory(folder_.path() / "mine");
  ::chmod((folder_.path() / "mine").c_str(), 0700);
  fs::create_symlink(folder_.path() / "mine", folder_.path() / "link");
  EXPECT_NE(said(folder_.path() / "link").find("cannot use"), std::string::npos);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((folder_.path() / "mine").c_str(), 1, 1), 0);
    EXPECT_NE(said(folder_.path() / "mine").find("belongs to user 1"), std::string::npos);
  }
}

TEST_F(Meet, NoticeIsReadWholeAndPutUpByOneAtATime) {
  Notice first(private_folder(), "job");
  Notice second(private_folder(), "job");
  Notice other(private_folder(), "another job");
  EXPECT_FALSE(first.read());
  const Notice::Content content{{"127.0.0.1", 1234}, net::make_secret()};
  first.put_up(content);
  EXPECT_EQ(second.read(), content);
  EXPECT_FALSE(other.read());
  EXPECT_NE(refusal([&] { second.put_up(content); }).find("another job of the same name"), std::string::npos);
  first.take_down();
  EXPECT_FALSE(second.read());
  second.put_up(content);
  EXPECT_EQ(first.read(), content);
}

}  // namespace
}  // namespace tutti::joining
