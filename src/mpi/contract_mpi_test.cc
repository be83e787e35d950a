// What every engine promises, of MPI's, and what a meeting does: mpirun starts it as 2, 3 and 4 processes.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/engine_contract.h"
#include "launch/join.h"
#include "mpi/mpi.h"
#include "net/group.h"

namespace tutti::mpi {
namespace {

namespace contract = collectives::contract;
using collectives::Collectives;
using collectives::ReduceOp;
using contract::Memory;

rendezvous::Meeting* everyone = nullptr;  // set by main, before any test

// Calls body with an engine over a fresh transport of this kind, of all processes or of all but the last.
void run(const std::string& transport, Clock::duration timeout, const std::function<void(Collectives&)>& body,
         int servers = 0) {
  launch::JobSpec spec;
  spec.workers = everyone->world() - servers;
  spec.servers = servers;
  spec.transport = transport;
  spec.timeout = timeout;
  const auto joined = launch::join(*everyone, everyone->rank() == Rank{0} ? &spec : nullptr);
  observe::JsonlSink unheard(UniqueFd(), "nowhere");
  const auto all = launch::connect(joined->job(), unheard);
  if (to_int(all->rank()) < spec.workers) {
    net::Group workers(*all, spec.workers);
    const auto engine = make_engine(workers, timeout);
    body(*engine);
  }
  everyone->all_gather("");  // nobody leaves while others are at it
}

constexpr auto kPatience = std::chrono::seconds(60);

TEST(MpiMeeting, EveryTextArrivesWhole) {
  const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 7, '\0') + "x"; };
  const auto texts = everyone->all_gather(text_of(to_int(everyone->rank())));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(everyone->world()));
  for (int r = 0; r < everyone->world(); ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r));
}

TEST(MpiMeeting, ProcessesOfOneMachineAreOnOneHost) {
  EXPECT_EQ(launch::hosts_of(*everyone), std::vector<int>(static_cast<std::size_t>(everyone->world()), 0));
}

TEST(MpiEngine, AllOperationsAreExactAtAnyLength) {
  for (const char* transport : {"shm", "tcp"}) {
    run(transport, kPatience, [](Collectives& all) {
      contract::all_operations_are_exact(all, Memory::allocated);
      contract::all_operations_are_exact(all, Memory::heap);
    });
  }
}

TEST(MpiEngine, ServesTheWorkersAloneWhereOthersAreServers) {
  if (everyone->world() < 3) return;  // with two processes nobody would be left to work with
  run(
      "shm", kPatience, [](Collectives& all) { contract::all_operations_are_exact(all, Memory::heap); },
      /*servers=*/1);
}

TEST(MpiEngine, ManySmallReductionsInARowStayInStep) {
  run("shm", kPatience,
      [](Collectives& all) { contract::many_small_reductions_stay_in_step(all, Memory::allocated); });
}

TEST(MpiEngine, AveragesAreTheMeansInEveryType) {
  run("shm", kPatience, [](Collectives& all) { contract::averages_are_the_means_in_every_type(all); });
}

TEST(MpiEngine, MinimumAndMaximumOfANanAreNan) {
  run("shm", kPatience, [](Collectives& all) { contract::minimum_and_maximum_of_a_nan_are_nan(all); });
}

TEST(MpiEngine, EveryRankHasTheSameBits) {
  run("shm", kPatience, [](Collectives& all) { contract::sums_of_the_same_bits(all); });
}

TEST(MpiEngine, TextsAndMemoryAreAsWithAnyEngine) {
  run("tcp", kPatience, [](Collectives& all) {
    contract::texts_of_different_lengths_are_gathered(all);
    contract::memory_that_was_taken_back_is_zero_again(all);
    contract::shards_are_averaged_in_the_order_of_their_tree(all, Memory::heap, {1, 100'000});
  });
}

// A rank that does not come, though it lives, is waited for as long as somebody gets on, and then named.
TEST(MpiEngine, JobThatStandsStillEndsWithATimeout) {
  run("shm", std::chrono::milliseconds(300), [](Collectives& all) {
    if (to_int(all.rank()) == all.world() - 1) {
      everyone->all_gather("");
      return all.barrier("so that MPI has nothing left to wait for");
    }
    std::vector<std::int32_t> values(10'000);  // more than a call that is made at once
    try {
      all.all_reduce({values.data(), values.size(), DType::i32}, ReduceOp::sum, "bucket 3");
      ADD_FAILURE() << "rank " << to_int(all.rank());
    } catch (const Timeout& e) {
      EXPECT_EQ(e.fault.peer, Rank{all.world() - 1});
      EXPECT_EQ(e.fault.operation, "all-reduce of bucket 3");
    }
    EXPECT_THROW(all.barrier(), RunError) << "it is of no use any more";
    everyone->all_gather("");
  });
}

// Of other ranks than 0 only what went wrong is printed.
class Failures final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", to_int(everyone->rank()), result.file_name(),
                 result.line_number(), result.message());
  }
};

int run_tests(int argc, char** argv) {
  const auto meeting = join();
  everyone = meeting.get();
  ::testing::InitGoogleTest(&argc, argv);
  if (everyone->rank() != Rank{0}) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures);
  }
  const int code = RUN_ALL_TESTS();
  if (code == 0) meeting->finish();
  return code;
}

}  // namespace
}  // namespace tutti::mpi

int main(int argc, char** argv) {
  return tutti::mpi::run_tests(argc, argv);
}
