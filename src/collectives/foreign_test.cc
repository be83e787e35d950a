#include "collectives/foreign.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <thread>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::collectives {
namespace {

// What the libraries of the first two ranks tell each other.
struct Signals {
  std::atomic_flag late;      // rank 0 has waited for most of the time-out
  std::atomic_flag has_come;  // rank 1 waits, as the board shows
};

void give(std::atomic_flag& signal) {
  signal.test_and_set();
  signal.notify_all();
}

// A library whose calls never end, but for the time that a wait may take. Rank 0's lets no time-out pass
// before rank 1 has come.
class Stuck final : public ForeignEngine {
 public:
  Stuck(net::Transport& transport, Clock::duration timeout, Signals& signals)
      : ForeignEngine(transport, timeout), late_(timeout * 3 / 4), signals_(signals) {}
  Method method(Operation, std::uint64_t) const override { return {"its own", ""}; }

 private:
  class Endless final : public Work {
   public:
    Endless(Rank rank, Clock::duration late, Signals& signals)
        : rank_(rank), late_(late), signals_(signals) {}
    bool wait(Clock::duration at_most) override {
      // The first time the engine hopes that it is done at once, and shows no waiting.
      if (rank_ == Rank{1} && ++asked_ == 2) give(signals_.has_come);
      std::this_thread::sleep_for(at_most);  // the library is at it
      // Behind the sleep, which may be as long as the time-out where others keep the processor busy.
      if (rank_ == Rank{0} && Clock::now() - begin_ > late_) {
        give(signals_.late);
        signals_.has_come.wait(false);
      }
      return false;
    }

   private:
    const Rank rank_;
    const Clock::duration late_;
    const Clock::time_point begin_ = Clock::now();
    Signals& signals_;
    int asked_ = 0;
  };
  std::unique_ptr<Work> start(const Request&, const net::Activity&) override {
    return std::make_unique<Endless>(rank(), late_, signals_);
  }

  const Clock::duration late_;
  Signals& signals_;
};

// Rank 1 comes when most of the time-out is over, so that it was missed for a while, and is still there when
// rank 0 has given up. Rank 2 never comes.
TEST(ForeignEngine, RankThatComesLateIsNotTheOneThatAllWaitedFor) {
  constexpr std::chrono::milliseconds kTimeout{400};
  Signals signals;
  std::barrier given_up(3);
  net::run_as_threads(net::Medium::memory, 3, kTimeout, [&](net::Transport& t) {
    if (t.rank() < Rank{2}) {
      Stuck engine(t, kTimeout, signals);
      if (t.rank() == Rank{1}) signals.late.wait(false);
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
  Signals signals;
  give(signals.has_come);  // so that nobody waits for it
  std::latch first(1);
  std::barrier given_up(3);
  net::run_as_threads(net::Medium::memory, 3, kTimeout, [&](net::Transport& t) {
    Stuck engine(t, kTimeout, signals);
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
