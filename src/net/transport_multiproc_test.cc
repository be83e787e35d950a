// The same contract where ranks are processes that get killed and stopped.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "net/segment_transport.h"
#include "net/tcp_transport.h"

namespace tutti::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kWorld = 3;
constexpr Activity kDoing{"all-reduce", "bucket 0"};

enum class End { fine, lost, timed_out, other };

// What one rank does: everyone sends to everyone until something ends it.
End exchange_forever(Transport& t, int ready_fd) {
  std::vector<std::byte> mine(100'000);
  try {
    for (int round = 0;; ++round) {
      std::vector<Outgoing> out;
      std::vector<Incoming> in;
      std::vector<std::vector<std::byte>> theirs(kWorld, std::vector<std::byte>(mine.size()));
      for (int p = 0; p < kWorld; ++p) {
        if (Rank{p} == t.rank()) continue;
        out.push_back({Rank{p}, mine});
        in.push_back({Rank{p}, theirs[static_cast<std::size_t>(p)], mine.size()});
      }
      t.transfer(out, in, kDoing);
      if (round == 10 && ::write(ready_fd, "r", 1) != 1) return End::other;
    }
  } catch (const PeerLost&) {
    return End::lost;
  } catch (const Timeout&) {
    return End::timed_out;
  } catch (...) {
    return End::other;
  }
}

class Job {
 public:
  Job(bool sockets, Clock::duration timeout) {
    if (::pipe(ready_) != 0) throw_errno("pipe");
    auto segment = std::make_shared<const Segment>(Segment::create(kWorld, 1 << 20));
    const Secret secret = make_secret();
    std::vector<std::unique_ptr<Mesh>> meshes;
    std::vector<Endpoint> endpoints;
    for (int r = 0; r < kWorld && sockets; ++r) {
      meshes.push_back(std::make_unique<Mesh>(Rank{r}, kWorld, secret, "127.0.0.1"));
      endpoints.push_back(meshes.back()->endpoint());
    }
    for (int r = 0; r < kWorld; ++r) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::alarm(120);  // never outlive a broken test
        std::unique_ptr<Transport> t;
        if (sockets) {
          auto mesh = std::move(meshes[static_cast<std::size_t>(r)]);
          meshes.clear();
          t = mesh->connect(endpoints, unpinned_options(kWorld, timeout));
        } else {
          t = std::make_unique<SegmentTransport>(segment, Rank{r}, unpinned_options(kWorld, timeout));
        }
        const End end = exchange_forever(*t, ready_[1]);
        t.reset();
        ::_exit(static_cast<int>(end));
      }
      pids_.push_back(pid);
    }
    char c = 0;
    for (int r = 0; r < kWorld; ++r) EXPECT_EQ(::read(ready_[0], &c, 1), 1);
  }

  ~Job() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
  }

  void signal(int rank, int number) { ::kill(pids_[static_cast<std::size_t>(rank)], number); }

  End end_of(int rank) {
    int status = 0;
    ::waitpid(std::exchange(pids_[static_cast<std::size_t>(rank)], -1), &status, 0);
    return WIFEXITED(status) ? static_cast<End>(WEXITSTATUS(status)) : End::other;
  }

 private:
  int ready_[2]{};
  std::vector<pid_t> pids_;
};

class TransportProcesses : public ::testing::TestWithParam<bool> {};

TEST_P(TransportProcesses, KilledRankIsLostForEveryOtherRank) {
  Job job(GetParam(), seconds(60));
  job.signal(1, SIGKILL);
  EXPECT_EQ(job.end_of(0), End::lost);
  EXPECT_EQ(job.end_of(2), End::lost);
}

TEST_P(TransportProcesses, StoppedRankTimesOutForTheOthers) {
  Job job(GetParam(), milliseconds(500));
  job.signal(1, SIGSTOP);
  for (const int rank : {0, 2}) {
    // Whoever notices first leaves, so the other may see that as a loss.
    const End end = job.end_of(rank);
    EXPECT_TRUE(end == End::timed_out || end == End::lost) << static_cast<int>(end);
  }
}

INSTANTIATE_TEST_SUITE_P(Media, TransportProcesses, ::testing::Values(false, true),
                         [](const auto& p) { return p.param ? "Tcp" : "Shm"; });

}  // namespace
}  // namespace tutti::net
