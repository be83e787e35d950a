// What every engine and every transport promises, of MPI's, and what a meeting does: mpirun starts it as 2, 3
// and 4 processes.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collectives/engine_contract.h"
#include "collectives/native.h"
#include "launch/join.h"
#include "mpi/mpi.h"
#include "net/group.h"
#include "net/transport_contract.h"

namespace tutti::mpi {
namespace {

namespace contract = collectives::contract;
using collectives::Collectives;
using collectives::ReduceOp;
using contract::Memory;

rendezvous::Meeting* everyone = nullptr;  // set by main, before any test

void meet() {
  everyone->all_gather("");
}

launch::JobSpec spec_of(const std::string& transport, Clock::duration timeout, int servers = 0) {
  launch::JobSpec spec;
  spec.workers = everyone->world() - servers;
  spec.servers = servers;
  spec.transport = transport;
  spec.timeout = timeout;
  return spec;
}

std::unique_ptr<launch::Joined> join_job(const launch::JobSpec& spec) {
  return launch::join(*everyone, everyone->rank() == Rank{0} ? &spec : nullptr);
}

std::unique_ptr<net::Transport> connect(const launch::WorkerJob& job) {
  observe::JsonlSink unheard(UniqueFd(), "nowhere");
  return launch::connect(job, unheard);
}

// Calls body with an engine over a fresh transport of this kind, of all processes or of all but the last.
void run(const std::string& transport, Clock::duration timeout, const std::function<void(Collectives&)>& body,
         int servers = 0) {
  const auto spec = spec_of(transport, timeout, servers);
  const auto joined = join_job(spec);
  const auto all = connect(joined->job());
  if (to_int(all->rank()) < spec.workers) {
    net::Group workers(*all, spec.workers);
    const auto engine = make_engine(workers, timeout);
    body(*engine);
  }
  meet();  // nobody leaves while others are at it
}

// Calls body with a fresh transport of MPI's; who returns from it has left.
void run_over_mpi(Clock::duration timeout, const std::function<void(net::Transport&)>& body) {
  const auto joined = join_job(spec_of("mpi", timeout));
  body(*connect(joined->job()));
  meet();
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
  for (const char* transport : {"shm", "tcp", "mpi"}) {
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

TEST(MpiEngine, SumsHaveTheSameBitsOnEveryRank) {
  run("shm", kPatience, [](Collectives& all) { contract::sums_of_the_same_bits(all); });
}

TEST(MpiEngine, TextsAreGatheredReusedMemoryIsZeroAndShardsAreAveragedInTheirTree) {
  run("tcp", kPatience, [](Collectives& all) {
    contract::texts_of_different_lengths_are_gathered(all);
    contract::memory_that_was_taken_back_is_zero_again(all);
    contract::shards_are_averaged_in_the_order_of_their_tree(all, Memory::heap, {1, 100'000});
  });
}

// A rank that does not come, though it lives, is waited for as long as somebody gets on, and then named.
TEST(MpiEngine, RankThatDoesNotComeIsNamedByATimeoutAndNoCallWorksAfterwards) {
  run("shm", std::chrono::milliseconds(1000), [](Collectives& all) {
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

TEST(MpiTransport, CarriesMessages) {
  run_over_mpi(kPatience, net::contract::messages_arrive_complete_and_in_order);
  run_over_mpi(kPatience, net::contract::large_messages_both_ways_at_once_do_not_block_each_other);
  run_over_mpi(kPatience, net::contract::everyone_sends_to_everyone_at_once);
  run_over_mpi(kPatience, net::contract::window_is_handed_over_piece_by_piece_in_order);
  run_over_mpi(kPatience, net::contract::different_lengths_are_a_protocol_error_before_any_byte_is_stored);
  run_over_mpi(kPatience, net::contract::wait_for_any_says_whose_message_has_come);
  run_over_mpi(kPatience, net::contract::one_thread_sends_while_another_receives);
}

TEST(MpiTransport, EveryWaitEnds) {
  constexpr std::chrono::milliseconds kShort{300};
  run_over_mpi(kPatience, net::contract::wait_for_any_ends_with_its_time_or_a_lost_peer);
  run_over_mpi(kPatience, net::contract::what_a_peer_sent_before_it_left_still_arrives);
  run_over_mpi(kPatience, net::contract::cancel_ends_a_blocked_call);
  run_over_mpi(kShort, [](net::Transport& t) {
    net::contract::stalled_peer_is_a_timeout_that_says_how_long(t, meet);
  });
  run_over_mpi(kShort,
               [](net::Transport& t) { net::contract::peer_that_does_not_read_is_a_timeout_too(t, meet); });
  if (everyone->world() < 3) return;
  run_over_mpi(kPatience, net::contract::peer_that_leaves_is_lost_at_once_and_named);
  run_over_mpi(kShort, [&](net::Transport& t) {
    net::contract::busy_peer_is_waited_for_and_so_is_who_waits_for_it(t, kShort);
  });
}

TEST(MpiTransport, CarriesOurSchedules) {
  run_over_mpi(kPatience, [](net::Transport& t) {
    collectives::NativeEngine all(t);
    contract::all_operations_are_exact(all, Memory::heap);
    contract::many_small_reductions_stay_in_step(all, Memory::allocated);
    contract::texts_of_different_lengths_are_gathered(all);
  });
}

// A server that lives in a worker's process has a rank of its own, and messages of its own.
TEST(MpiTransport, CarriesMessagesOfTwoRanksInEachProcess) {
  auto spec = spec_of("mpi", kPatience);
  spec.servers = spec.workers;
  spec.colocate = true;
  const auto joined = join_job(spec);
  launch::WorkerJob second = joined->job();
  second.rank = Rank{to_int(second.rank) + spec.workers};
  std::thread server([&] { net::contract::everyone_sends_to_everyone_at_once(*connect(second)); });
  net::contract::everyone_sends_to_everyone_at_once(*connect(joined->job()));
  server.join();
  meet();
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
  const auto meeting = join(Threads::at_once);
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
