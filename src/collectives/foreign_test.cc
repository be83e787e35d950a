#include "collectives/foreign.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::collectives {
namespace {

using std::chrono::milliseconds;

// A library whose calls never end.
class Stuck final : public ForeignEngine {
 public:
  using ForeignEngine::ForeignEngine;
  Method method(Operation, std::uint64_t) const override { return {"its own", ""}; }

 private:
  struct Endless final : Work {
    bool wait(Clock::duration at_most) override {
      std::this_thread::sleep_for(at_most);
      return false;
    }
  };
  std::unique_ptr<Work> start(const Request&, const net::Activity&) override {
    return std::make_unique<Endless>();
  }
};

// Rank 1 comes when half of the time-out is over, so that it was suspected for a while. Rank 2 never does.
TEST(ForeignEngine, RankThatComesLateIsNotTheOneThatAllWaitedFor) {
  constexpr milliseconds kTimeout{1000};
  std::barrier given_up(3);
  net::run_as_threads(net::Medium::memory, 3, kTimeout, [&](net::Transport& t) {
    if (t.rank() < Rank{2}) {
      Stuck engine(t, kTimeout);
      if (t.rank() == Rank{1}) std::this_thread::sleep_for(kTimeout * 3 / 4);
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

}  // namespace
}  // namespace tutti::collectives
