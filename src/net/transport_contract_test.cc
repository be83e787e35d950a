// The contract of transport.h, over every medium, with ranks as threads.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "base/error.h"
#include "net/inproc.h"
#include "net/transport_contract.h"

namespace tutti::net {
namespace {

using contract::be_busy;
using contract::kDoing;
using contract::kPatience;
using std::chrono::milliseconds;

class TransportContract : public ::testing::TestWithParam<Medium> {
 protected:
  static void run(int world, const std::function<void(Transport&)>& body,
                  Clock::duration timeout = kPatience) {
    run_as_threads(GetParam(), world, timeout, body);
  }

  // With a check that needs its ranks to meet.
  static void run(int world, void (*check)(Transport&, const contract::Meet&), Clock::duration timeout) {
    std::barrier all(world);
    run(
        world, [&](Transport& t) { check(t, [&] { all.arrive_and_wait(); }); }, timeout);
  }
};

TEST_P(TransportContract, MessagesArriveCompleteAndInOrder) {
  run(2, contract::messages_arrive_complete_and_in_order);
}

TEST_P(TransportContract, LargeMessagesBothWaysAtOnceDoNotBlockEachOther) {
  run(2, contract::large_messages_both_ways_at_once_do_not_block_each_other);
}

TEST_P(TransportContract, EveryoneToEveryoneAtOnceWithMoreRanksThanCores) {
  run(7, contract::everyone_sends_to_everyone_at_once);
}

TEST_P(TransportContract, WindowIsHandedOverPieceByPieceInOrder) {
  run(2, contract::window_is_handed_over_piece_by_piece_in_order);
}

TEST_P(TransportContract, DifferentLengthsAreAProtocolErrorBeforeAnyByteIsStored) {
  run(2, contract::different_lengths_are_a_protocol_error_before_any_byte_is_stored);
}

TEST_P(TransportContract, WaitForAnySaysWhoseMessageHasCome) {
  run(4, contract::wait_for_any_says_whose_message_has_come);
}

TEST_P(TransportContract, WaitForAnyEndsWithItsTimeOrALostPeer) {
  run(2, contract::wait_for_any_ends_with_its_time_or_a_lost_peer);
}

TEST_P(TransportContract, OneThreadSendsWhileAnotherReceives) {
  run(2, contract::one_thread_sends_while_another_receives);
}

TEST_P(TransportContract, PeerThatLeavesIsLostAtOnceAndNamed) {
  run(3, contract::peer_that_leaves_is_lost_at_once_and_named);
}

TEST_P(TransportContract, WhatAPeerSentBeforeItLeftStillArrives) {
  run(2, contract::what_a_peer_sent_before_it_left_still_arrives);
}

TEST_P(TransportContract, StalledPeerIsATimeoutThatSaysHowLong) {
  run(2, contract::stalled_peer_is_a_timeout_that_says_how_long, milliseconds(300));
}

TEST_P(TransportContract, PeerThatDoesNotReadIsATimeoutToo) {
  run(2, contract::peer_that_does_not_read_is_a_timeout_too, milliseconds(300));
}

TEST_P(TransportContract, BusyPeerIsWaitedForAndSoIsWhoWaitsForIt) {
  constexpr auto kTimeout = milliseconds(500);
  run(
      3, [&](Transport& t) { contract::busy_peer_is_waited_for_and_so_is_who_waits_for_it(t, kTimeout); },
      kTimeout);
}

TEST_P(TransportContract, RanksThatAllWaitAreATimeoutHoweverTheyWait) {
  run(
      3,
      [](Transport& t) {
        std::vector<std::byte> got(10);
        const Rank next[] = {Rank{(to_int(t.rank()) + 1) % 3}};
        if (t.rank() != Rank{2}) {
          EXPECT_THROW(receive(t, next[0], got, kDoing), RunError);  // Timeout, or PeerLost as the first ends
          return;
        }
        try {
          while (!t.wait_for_any(next, milliseconds(1), kDoing)) continue;
          ADD_FAILURE();
        } catch (const PeerLost&) {
        }
      },
      milliseconds(300));
}

TEST_P(TransportContract, WhoSleepsForAPeerShowsThatItWaits) {
  run(2, [](Transport& t) {
    std::vector<std::byte> word(10);
    if (t.rank() == Rank{0}) {
      receive(t, Rank{1}, word, kDoing);
      EXPECT_FALSE(t.board().vitals(Rank{0}).waiting);
      const auto before = t.board().vitals(Rank{0}).progress;
      const Rank peer[] = {Rank{1}};
      EXPECT_TRUE(t.wait_for_any(peer, kPatience, kDoing));
      EXPECT_EQ(t.board().vitals(Rank{0}).progress, before) << "to look is not to get on";
      receive(t, Rank{1}, word, kDoing);
      EXPECT_GT(t.board().vitals(Rank{0}).progress, before);
      return;
    }
    for (int i = 0; i < 2; ++i) {  // bounded by the test's own time limit
      while (!t.board().vitals(Rank{0}).waiting) std::this_thread::yield();
      send(t, Rank{0}, word, kDoing);
    }
  });
}

TEST_P(TransportContract, CancelEndsABlockedCall) {
  run(2, contract::cancel_ends_a_blocked_call);
}

TEST_P(TransportContract, WorldOfOneWorks) {
  run(1, [](Transport& t) { t.transfer({}, {}, kDoing); });
}

INSTANTIATE_TEST_SUITE_P(Media, TransportContract,
                         ::testing::Values(Medium::memory, Medium::sockets, Medium::sealed_sockets,
                                           Medium::encrypted_sockets),
                         [](const auto& p) -> std::string {
                           switch (p.param) {
                             case Medium::memory:
                               return "Memory";
                             case Medium::sockets:
                               return "Sockets";
                             case Medium::sealed_sockets:
                               return "SealedSockets";
                             case Medium::encrypted_sockets:
                               return "EncryptedSockets";
                           }
                           return "?";
                         });

TEST(PeerMemory, CountersOrderWritesBetweenRanks) {
  run_as_threads(Medium::memory, 5, kPatience, [](Transport& t) {
    PeerMemory& memory = *t.peer_memory();
    const int me = to_int(t.rank());
    auto* mine = reinterpret_cast<std::uint64_t*>(memory.arena(t.rank()).data());
    for (std::uint64_t round = 1; round <= 500; ++round) {
      *mine = round * 1000 + static_cast<std::uint64_t>(me);
      memory.advance(2 * round - 1);
      for (int p = 0; p < t.world(); ++p) {
        memory.await(Rank{p}, 2 * round - 1, kDoing);
        const auto* theirs = reinterpret_cast<const std::uint64_t*>(memory.arena(Rank{p}).data());
        ASSERT_EQ(*theirs, round * 1000 + static_cast<std::uint64_t>(p));
      }
      memory.advance(2 * round);
      for (int p = 0; p < t.world(); ++p) memory.await(Rank{p}, 2 * round, kDoing);
    }
  });
}

TEST(PeerMemory, WaitingForARankThatLeftIsPeerLost) {
  run_as_threads(Medium::memory, 2, kPatience, [](Transport& t) {
    if (t.rank() == Rank{1}) return;
    EXPECT_THROW(t.peer_memory()->await(Rank{1}, 1, kDoing), PeerLost);
  });
}

TEST(PeerMemory, BusyRankIsWaitedFor) {
  constexpr auto kTimeout = milliseconds(500);
  run_as_threads(Medium::memory, 2, kTimeout, [&](Transport& t) {
    if (t.rank() == Rank{1}) be_busy(t, 3 * kTimeout);
    t.peer_memory()->advance(1);
    t.peer_memory()->await(Rank{1}, 1, kDoing);
  });
}

TEST(PeerMemory, StalledRankIsATimeout) {
  std::atomic<bool> noticed = false;
  run_as_threads(Medium::memory, 2, milliseconds(200), [&](Transport& t) {
    if (t.rank() == Rank{1}) {
      while (!noticed) std::this_thread::yield();
      return;
    }
    EXPECT_THROW(t.peer_memory()->await(Rank{1}, 1, kDoing), Timeout);
    noticed = true;
  });
}

}  // namespace
}  // namespace tutti::net
