#include "fetch/fetch.h"

#include <gtest/gtest.h>

#include <map>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "fetch/http_fixture.h"
#include "fetch/npm_pack.h"
#include "fetch/tar_fixture.h"

namespace tutti::fetch {
namespace {

using namespace data::fixture;
using namespace fixture;

class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    contents_ = {images_idx(30), labels_idx(30), images_idx(12), labels_idx(12)};
    info_ = data::find_dataset("mnist");
    for (std::size_t i = 0; i < 4; ++i) {
      info_.files[i].sha256 = sha256_hex(as_bytes(contents_[i]));
      info_.files[i].bytes = contents_[i].size();
    }
  }

  // The answers of a publisher who has every file, gzipped.
  std::map<std::string, std::string> answers() const {
    std::map<std::string, std::string> all;
    for (std::size_t i = 0; i < 4; ++i) all["/m/" + name(i) + ".gz"] = HttpServer::ok(gzipped(contents_[i]));
    return all;
  }
  std::string error_from(const std::map<std::string, std::string>& all) {
    HttpServer server(all);
    std::string text;
    try {
      fetch(info_, root_, UrlSource{server.address() + "/m"});
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  }
  std::string tar() const {
    return tar_of({{"package/readme.md", "hello"},
                   {"package/data/" + name(0), contents_[0]},
                   {"package/data/" + name(1) + ".gz", gzipped(contents_[1])},
                   {"package/data/" + name(2), contents_[2]},
                   {"package/data/" + name(3), contents_[3]}});
  }
  std::string name(std::size_t i) const { return info_.files[i].name; }
  std::vector<std::string> files_in_root() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(root_)) return names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  void expect_whole(const data::LocatedDataset& located) const {
    verify(info_, located);
    const std::vector roots = {root_};
    EXPECT_EQ(data::locate(info_, roots).paths, located.paths);
    EXPECT_EQ(files_in_root().size(), 5u) << "the folder and four files";
  }

  ScratchFolder scratch_;
  std::filesystem::path root_ = scratch_.path() / "root";
  std::array<std::string, 4> contents_;
  data::DatasetInfo info_;
};

TEST_F(Fetch, DownloadsEveryFileAndReportsProgress) {
  HttpServer server(answers());
  std::map<std::string, std::uint64_t> done;
  const auto located = fetch(info_, root_, UrlSource{server.address() + "/m"},
                             [&](std::string_view file, std::uint64_t bytes, std::uint64_t total) {
                               done[std::string(file)] = bytes;
                               EXPECT_LE(bytes, total);
                             });
  expect_whole(located);
  EXPECT_EQ(done.size(), 4u);
  EXPECT_EQ(done[name(0)], gzipped(contents_[0]).size());
}

TEST_F(Fetch, TheOfficialSourceIsTheAddressOfTheCatalogue) {
  HttpServer server(answers());
  info_.address = server.address() + "/m/";
  expect_whole(fetch(info_, root_, parse_source("")));
}

TEST_F(Fetch, TakesPlainFilesWhereThereIsNoGzippedOne) {
  auto all = answers();
  all.erase("/m/" + name(3) + ".gz");
  all["/m/" + name(3)] = HttpServer::ok(contents_[3]);
  HttpServer server(all);
  const auto located = fetch(info_, root_, UrlSource{server.address() + "/m/"});
  expect_whole(located);
  EXPECT_EQ(located.paths[3].extension(), "");
}

TEST_F(Fetch, FollowsARedirect) {
  auto all = answers();
  all["/elsewhere"] = all["/m/" + name(0) + ".gz"];
  all["/m/" + name(0) + ".gz"] = HttpServer::redirect("/elsewhere");
  HttpServer server(all);
  expect_whole(fetch(info_, root_, UrlSource{server.address() + "/m"}));
}

TEST_F(Fetch, AWrongDigestLeavesNothing) {
  auto all = answers();
  std::string other = contents_[0];
  other.back() = static_cast<char>(other.back() + 1);
  all["/m/" + name(0) + ".gz"] = HttpServer::ok(gzipped(other));
  EXPECT_NE(error_from(all).find("SHA-256 of the content is "), std::string::npos);
  EXPECT_EQ(files_in_root(), std::vector<std::string>());
}

TEST_F(Fetch, ABombLeavesNothing) {
  auto all = answers();
  all["/m/" + name(0) + ".gz"] = HttpServer::ok(gzipped(std::string(1'000'000, 'x')));
  EXPECT_NE(error_from(all).find("decodes to more than 196 bytes"), std::string::npos);
  EXPECT_EQ(files_in_root(), std::vector<std::string>());
}

TEST_F(Fetch, ATruncatedBodyLeavesNothing) {
  auto all = answers();
  std::string& answer = all["/m/" + name(0) + ".gz"];
  answer.resize(answer.size() - 10);
  EXPECT_NE(error_from(all).find("it was cut short"), std::string::npos);
  EXPECT_EQ(files_in_root(), std::vector<std::string>());
}

TEST_F(Fetch, AMissingFileIsNamedAndTheOthersStay) {
  auto all = answers();
  all.erase("/m/" + name(1) + ".gz");
  EXPECT_EQ(error_from(all), "the source has no train-labels-idx1-ubyte[.gz]");
  EXPECT_EQ(files_in_root().size(), 4u);
  EXPECT_EQ(error_from(answers()), "") << "a second attempt completes the set";
}

TEST_F(Fetch, FilesThatAreWholeAreNotFetchedAgainAndDamagedOnesAre) {
  { EXPECT_EQ(error_from(answers()), ""); }
  write_file_atomically(root_ / "mnist" / name(2), std::string("damaged"));  // found before the gzipped one
  auto only_one = answers();
  for (const std::size_t i : {0, 1, 3}) only_one.erase("/m/" + name(i) + ".gz");
  EXPECT_EQ(error_from(only_one), "");
  const std::vector roots = {root_};
  expect_whole(data::locate(info_, roots));
}

TEST_F(Fetch, TakesAFolderAnArchiveOrOneFile) {
  for (std::size_t i = 0; i < 4; ++i)
    data::fixture::write(scratch_.path() / "folder" / (name(i) + ".gz"), contents_[i]);
  write_file_atomically(scratch_.path() / "a.tar", tar());
  write_file_atomically(scratch_.path() / "a.tgz", gzipped(tar()));
  for (const char* source : {"folder", "a.tar", "a.tgz"}) {
    expect_whole(fetch(info_, root_, parse_source((scratch_.path() / source).string())));
    remove_tree(root_);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const Source one = FileSource{scratch_.path() / "folder" / (name(i) + ".gz")};
    const std::string text = error_of<DataError>([&] { fetch(info_, root_, one); });
    EXPECT_EQ(text.empty(), i == 3) << "whole only with the last file";
  }
}

TEST_F(Fetch, RefusesAFileThatHasNothingToDoWithTheSet) {
  write_file_atomically(scratch_.path() / "notes.txt", std::string("hello"));
  const Source source = FileSource{scratch_.path() / "notes.txt"};
  EXPECT_NE(error_of<DataError>([&] {
              fetch(info_, root_, source);
            }).find("neither an archive nor a file of mnist"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>([&] { fetch(info_, root_, FileSource{scratch_.path() / "none"}); }), "");
}

TEST_F(Fetch, TakesTheFilesOutOfThePublishersArchive) {
  HttpServer server(HttpServer::Answers{{"/data-1.tar.gz", HttpServer::ok(gzipped(tar()))}});
  info_.address = server.address() + "/data-1.tar.gz";
  expect_whole(fetch(info_, root_, OfficialSource{}));
  remove_tree(root_);
  HttpServer other(HttpServer::Answers{{"/a.tgz", HttpServer::ok(gzipped("no archive"))}});
  EXPECT_NE(error_of<DataError>([&] {
              fetch(info_, root_, UrlSource{other.address() + "/a.tgz"});
            }).find("/a.tgz: not a tar archive"),
            std::string::npos);
}

TEST_F(Fetch, TakesOneFileByItsAddress) {
  HttpServer server(HttpServer::Answers{{"/" + name(0), HttpServer::ok(contents_[0])}});
  info_.files.resize(1);
  const auto located = fetch(info_, root_, UrlSource{server.address() + "/" + name(0)});
  verify(info_, located);
}

TEST_F(Fetch, UnpacksWhatMustNotBeGzipped) {
  HttpServer server(answers());
  info_.gzip = false;
  const auto located = fetch(info_, root_, UrlSource{server.address() + "/m"});
  expect_whole(located);
  for (const auto& path : located.paths) EXPECT_EQ(path.extension(), "");
}

TEST_F(Fetch, SaysThatThereIsNoOfficialSource) {
  info_.address = "";
  EXPECT_EQ(error_of<ConfigError>([&] { fetch(info_, root_, OfficialSource{}); }),
            "data set mnist: no publisher's address is known for certain; say where it is with: "
            "tutti data fetch mnist --from FILE|URL");
}

TEST_F(Fetch, FilesThatARunDoesWithoutAreMissedByVerifyAndFetchOnly) {
  info_.files[1].optional = true;      // as the later batches of CIFAR-10
  info_.files[3].part = std::nullopt;  // as a text's validation part
  auto all = answers();
  all.erase("/m/" + name(1) + ".gz");
  all.erase("/m/" + name(3) + ".gz");
  EXPECT_EQ(error_from(all), "the source has no train-labels-idx1-ubyte[.gz]");
  const std::vector roots = {root_};
  const auto located = data::locate(info_, roots);
  EXPECT_TRUE(located.paths[1].empty());
  EXPECT_EQ(error_of<DataError>([&] { verify(info_, located); }),
            fmt::format("data set mnist: what is there is whole, but {} has no train-labels-idx1-ubyte[.gz]; "
                        "complete it with: tutti data fetch mnist",
                        (root_ / "mnist").string()));
}

TEST_F(Fetch, RefusesAFileOfOnesOwn) {
  write_file_atomically(scratch_.path() / "mine.txt", std::string("hello"));
  const data::DatasetInfo mine = data::find_dataset("text:" + (scratch_.path() / "mine.txt").string());
  EXPECT_THROW(fetch(mine, root_, OfficialSource{}), ConfigError);
  const std::vector roots = {root_};
  EXPECT_THROW(verify(mine, data::locate(mine, roots)), ConfigError);
}

class NpmFetch : public Fetch {
 protected:
  // A program that stands in for npm.
  SourceOptions stand_in(const std::string& script) const {
    const auto path = scratch_.path() / "npm-stand-in";
    write_file_atomically(path, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return {.npm_program = path.string()};
  }
};

TEST_F(NpmFetch, TakesTheFilesOfAPackage) {
  write_file_atomically(scratch_.path() / "a.tgz", gzipped(tar()));
  const auto options = stand_in(fmt::format(
      "[ \"$1 $4\" = 'pack some-data' ] && cp {}/a.tgz some-data-1.0.tgz", scratch_.path().string()));
  expect_whole(fetch(info_, root_, parse_source("npm:some-data"), {}, options));
}

TEST_F(NpmFetch, SaysWhyNpmFailed) {
  const auto options = stand_in("printf 'npm ERR! code E404\\nnpm ERR! 404 no such package\\n' >&2; exit 1");
  EXPECT_EQ(error_of<RunError>([&] { fetch(info_, root_, NpmSource{"none"}, {}, options); }),
            "npm pack none failed: 404 no such package");
}

TEST_F(NpmFetch, SaysThatNpmIsNotInstalled) {
  EXPECT_EQ(error_of<RunError>(
                [&] { fetch(info_, root_, NpmSource{"some-data"}, {}, {.npm_program = "no-such-npm"}); }),
            "cannot run no-such-npm: it is not installed");
}

TEST_F(NpmFetch, StopsAProgramThatDoesNotEnd) {
  const auto program = stand_in("exec sleep 1000").npm_program;
  EXPECT_NE(error_of<RunError>([&] {
              npm_pack("some-data", scratch_.path(), program, std::chrono::milliseconds(50));
            }).find("did not end within 0.05 s"),
            std::string::npos);
}

TEST_F(NpmFetch, RefusesWhatIsNoPackageName) {
  for (const char* bad : {"", "-g", "--help", "./folder", "/folder", "user/repository", "git+https://a.org/x",
                          "a b", "@/x", "a;b"}) {
    EXPECT_NE(error_of<ConfigError>([&] { npm_pack(bad, scratch_.path()); }), "") << bad;
  }
}

}  // namespace
}  // namespace tutti::fetch
