#include "collectives/foreign.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <latch>
#include <thread>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::collectives {
namespace {

// How often each rank has asked its library.
using Asked = std::array<std::atomic<int>, 2>;

void await(const std::atomic<int>& count, int least) {
  for (int now = count; now < least; now = count) count.wait(now);
}

// A library whose calls never end, but for the time that a wait may take. Rank 0's, asked so often, waits
// until rank 1 has come and has looked around.
class Stuck final : public ForeignEngine {
 public:
  static constexpr int kAskedLate = 16;  // times 20 ms: three quarters of the time-out
  static constexpr int kLookedAround = 3;

  Stuck(net::Transport& transport, Clock::duration timeout, Asked& asked)
      : ForeignEngine(transport, timeout), asked_(asked) {}
  Method method(Operation, std::uint64_t) const override { return {"its own", ""}; }

 private:
  class Endless final : public Work {
   public:
    Endless(Rank rank, Asked& asked) : rank_(static_cast<std::size_t>(to_int(rank))), asked_(asked) {}
    bool wait(Clock::duration at_most) override {
      const int asked = ++asked_[rank_];
      asked_[rank_].notify_all();
      if (rank_ == 0 && asked == kAskedLate) await(asked_[1], kLookedAround);
      std::this_thread::sleep_for(at_most);  // the library is at it
      return false;
    }

   private:
    const std::size_t rank_;
    Asked& asked_;
  };
  std::unique_ptr<Work> start(const Request&, const net::Activity&) override {
    return std::make_unique<Endless>(rank(), asked_);
  }

  Asked& asked_;
};

// Rank 1 comes when most of the time-out is over, so that it was missed for a while, and is still there when
// rank 0 has given up. Rank 2 never comes.
TEST(ForeignEngine, RankThatComesLateIsNotTheOneThatAllWaitedFor) {
  constexpr std::chrono::milliseconds kTimeout{400};
  Asked asked{};
  std::barrier given_up(3);
  net::run_as_threads(net::Medium::memory, 3, kTimeout, [&](net::Transport& t) {
    if (t.rank() < Rank{2}) {
      Stuck engine(t, kTimeout, asked);
      if (t.rank() == Rank{1}) await(asked[0], Stuck::kAskedLate);
      try {
        engine.barrier("the end");
        ADD_FAILURE();
      } catch (const Timeout& e) {
        EXPECT_EQ(e.fault.peer, Rank{2}) << "as rank " << to_int(t.rank()) << " says";
      }
    }
    given_up.arrive_and_wait();
  });
}

// Rank 1 comes when rank 0 does not wait any more. Rank 2 never comes.
TEST(ForeignEngine, RankThatHasGivenUpIsNotTheOneThatALaterOneWaitedFor) {
  constexpr std::chrono::milliseconds kTimeout{100};
  Asked asked{0, Stuck::kLookedAround};
  std::latch first(1);
  std::barrier given_up(3);
  net::run_as_threads(net::Medium::memory, 3, kTimeout, [&](net::Transport& t) {
    Stuck engine(t, kTimeout, asked);
    if (t.rank() == Rank{1}) first.wait();
    if (t.rank() < Rank{2}) {
      try {
        engine.barrier("the end");
        ADD_FAILURE();
      } catch (const Timeout& e) {
        EXPECT_NE(e.fault.peer, Rank{0}) << "as rank " << to_int(t.rank()) << " says";
      }
    }
    if (t.rank() == Rank{0}) first.count_down();
    given_up.arrive_and_wait();
  });
}

}  // namespace
}  // namespace tutti::collectives
