#include "joining/pmi_meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barrier>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace tutti::joining {
namespace {

// A process manager in threads: answers as hydra does, and holds its clients to the lengths that it has
// named.
class Manager {
 public:
  // As SLURM's has it, requests are read into 1024 bytes, however long a value may be.
  static constexpr std::size_t kLongestLine = 1024;

  Manager(int world, std::size_t longest_value) : longest_value_(longest_value), all_(world) {
    for (int r = 0; r < world; ++r) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw_errno("socketpair");
      clients.push_back(ends[0]);
      threads_.emplace_back([this, fd = UniqueFd(ends[1])] { serve(fd.get()); });
    }
  }
  ~Manager() {
    for (auto& t : threads_) t.join();
  }

  std::vector<int> clients;  // descriptors, by rank

 private:
  void serve(int fd) {
    std::string rest;
    char some[100];
    for (ssize_t n = 0; (n = ::read(fd, some, sizeof some)) > 0;) {
      rest.append(some, static_cast<std::size_t>(n));
      for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
        const std::string answer = answer_to(rest.substr(0, end)) + "\n";
        // In two parts, as a stream may bring it.
        write_all(fd, std::as_bytes(std::span(answer).first(answer.size() / 2)), "answer");
        write_all(fd, std::as_bytes(std::span(answer).subspan(answer.size() / 2)), "answer");
      }
    }
  }

  std::string answer_to(const std::string& line) {
    std::map<std::string, std::string> words;
    std::istringstream text(line);
    for (std::string word; text >> word;)
      words[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    const std::string& command = words["cmd"];
    if (line.size() + 1 >= kLongestLine) return "cmd=nothing rc=-1";
    const std::lock_guard lock(mutex_);
    if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (command == "get_maxes")
      return fmt::format("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={}", longest_value_);
    if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1";
    if (command == "put" && words["value"].size() < longest_value_ && words["key"].size() < 64 &&
        words["kvsname"] == "kvs_1" && put_.try_emplace(words["key"], words["value"]).second)
      return "cmd=put_result rc=0 msg=success";
    if (command == "get" && known_.contains(words["key"]))
      return "cmd=get_result rc=0 msg=success value=" + known_[words["key"]];
    if (command == "finalize") return "cmd=finalize_ack rc=0";
    if (command == "barrier_in") {
      mutex_.unlock();
      all_.arrive_and_wait();
      mutex_.lock();
      known_ = put_;
      return "cmd=barrier_out rc=0";
    }
    return "cmd=" + command + "_result rc=-1 msg=refused";
  }

  const std::size_t longest_value_;
  std::mutex mutex_;
  std::barrier<> all_;
  std::map<std::string, std::string> put_;
  std::map<std::string, std::string> known_;  // after a barrier
  std::vector<std::thread> threads_;
};

class PmiMeetingOfValues : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(UpTo, PmiMeetingOfValues, ::testing::Values(40, 1024));

TEST_P(PmiMeetingOfValues, EveryoneHearsWhatEveryoneSaidHoweverLong) {
  constexpr int kWorld = 3;
  Manager manager(kWorld, GetParam());
  const auto text_of = [](int rank, int round) {
    return round == 0 ? std::string()
                      : std::string(static_cast<std::size_t>(rank * 500), '\n') + " =\x01\xfe" +
                            std::to_string(round);
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kWorld; ++rank) {
    ranks.emplace_back([&, rank] {
      PmiMeeting meeting(manager.clients[static_cast<std::size_t>(rank)], Rank{rank}, kWorld,
                         std::chrono::seconds(20));
      for (int round = 0; round < 3; ++round) {
        const auto texts = meeting.all_gather(text_of(rank, round));
        ASSERT_EQ(texts.size(), static_cast<std::size_t>(kWorld));
        for (int r = 0; r < kWorld; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r, round));
      }
      meeting.finish();
    });
  }
  for (auto& r : ranks) r.join();
}

TEST(PmiMeeting, WaitHasADeadlineAndAManagerThatRefusesIsTold) {
  int silent[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, silent), 0);
  const UniqueFd other(silent[1]);
  try {
    PmiMeeting(silent[0], Rank{1}, 2, std::chrono::milliseconds(50));
    ADD_FAILURE();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("not all 2 processes have come"), std::string::npos) << e.what();
  }
  int refusing[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, refusing), 0);
  const UniqueFd manager(refusing[1]);
  const std::string answer = "cmd=response_to_init rc=-1\n";
  write_all(manager.get(), std::as_bytes(std::span(answer)), "answer");
  try {
    PmiMeeting(refusing[0], Rank{1}, 2, std::chrono::seconds(20));
    ADD_FAILURE();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("PMI refuses init with code -1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tutti::joining
