// The contract of transport.h, over every medium, with ranks as threads.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kPatience = seconds(60);
constexpr Activity kDoing{"test"};

std::vector<std::byte> pattern(std::size_t n, int seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed) * 7) % 251);
  return bytes;
}

class TransportContract : public ::testing::TestWithParam<Medium> {
 protected:
  static void run(int world, const std::function<void(Transport&)>& body,
                  Clock::duration timeout = kPatience) {
    run_as_threads(GetParam(), world, timeout, body);
  }
};

TEST_P(TransportContract, MessagesArriveCompleteAndInOrder) {
  run(2, [](Transport& t) {
    for (int i = 0; i < 200; ++i) {
      const auto sent = pattern(static_cast<std::size_t>(i) * 37, i);
      if (t.rank() == Rank{0}) {
        send(t, Rank{1}, sent, kDoing);
      } else {
        std::vector<std::byte> got(sent.size());
        receive(t, Rank{0}, got, kDoing);
        ASSERT_EQ(got, sent);
      }
    }
  });
}

TEST_P(TransportContract, LargeMessagesBothWaysAtOnceDoNotBlockEachOther) {
  constexpr std::size_t kBytes = 9 << 20;
  run(2, [](Transport& t) {
    const Rank peer{1 - to_int(t.rank())};
    const auto mine = pattern(kBytes, to_int(t.rank()));
    std::vector<std::byte> got(kBytes);
    const Outgoing out[] = {{peer, mine}};
    const Incoming in[] = {{peer, got, got.size()}};
    t.transfer(out, in, kDoing);
    EXPECT_EQ(got, pattern(kBytes, to_int(peer)));
  });
}

TEST_P(TransportContract, EveryoneToEveryoneAtOnceWithMoreRanksThanCores) {
  constexpr int kWorld = 7;
  run(kWorld, [](Transport& t) {
    const int me = to_int(t.rank());
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<std::byte>> mine(kWorld);
      std::vector<std::vector<std::byte>> theirs(kWorld);
      std::vector<Outgoing> out;
      std::vector<Incoming> in;
      for (int p = 0; p < kWorld; ++p) {
        if (p == me) continue;
        mine[p] = pattern(static_cast<std::size_t>(1000 + me * 13 + p), me * 100 + p + round);
        theirs[p].resize(static_cast<std::size_t>(1000 + p * 13 + me));
        out.push_back({Rank{p}, mine[p]});
        in.push_back({Rank{p}, theirs[p], theirs[p].size()});
      }
      t.transfer(out, in, kDoing);
      for (int p = 0; p < kWorld; ++p) {
        if (p == me) continue;
        ASSERT_EQ(theirs[p], pattern(theirs[p].size(), p * 100 + me + round));
      }
    }
  });
}

TEST_P(TransportContract, WindowIsHandedOverPieceByPieceInOrder) {
  const auto sent = pattern(3 * kFrameBytes + 10'003, 5);
  run(2, [&](Transport& t) {
    if (t.rank() == Rank{0}) return send(t, Rank{1}, sent, kDoing);
    std::vector<std::byte> window(kFrameBytes + 4096);
    std::vector<std::byte> got;
    const Incoming in[] = {
        {Rank{0}, window, sent.size(), [&](std::size_t offset, std::span<const std::byte> piece) {
           ASSERT_EQ(offset, got.size());
           ASSERT_LE(piece.size(), window.size());
           got.insert(got.end(), piece.begin(), piece.end());
         }}};
    t.transfer({}, in, kDoing);
    EXPECT_EQ(got, sent);
  });
}

TEST_P(TransportContract, DifferentLengthsAreAProtocolErrorBeforeAnyByteIsStored) {
  std::vector<std::byte> got(50, std::byte{9});
  EXPECT_THROW(run(2,
                   [&](Transport& t) {
                     if (t.rank() == Rank{1}) return receive(t, Rank{0}, got, kDoing);
                     try {
                       send(t, Rank{1}, pattern(60, 1), kDoing);
                     } catch (const PeerLost&) {  // the other end has closed before all was written
                     }
                   }),
               ProtocolError);
  EXPECT_EQ(got, std::vector<std::byte>(50, std::byte{9}));
}

TEST_P(TransportContract, WaitForAnySaysWhoseMessageHasCome) {
  constexpr int kWorld = 4;
  constexpr int kRounds = 100;
  run(kWorld, [&](Transport& t) {
    const auto mine = pattern(777, to_int(t.rank()));
    if (t.rank() != Rank{0}) {
      for (int i = 0; i < kRounds; ++i) send(t, Rank{0}, mine, kDoing);
      return;
    }
    EXPECT_EQ(t.wait_for_any({}, milliseconds(1), kDoing), std::nullopt);
    const Rank peers[] = {Rank{1}, Rank{2}, Rank{3}};
    std::vector<int> left(kWorld, kRounds);
    std::vector<std::byte> got(777);
    for (int i = 0; i < 3 * kRounds; ++i) {
      std::vector<Rank> unfinished;
      std::ranges::copy_if(peers, std::back_inserter(unfinished),
                           [&](Rank r) { return left[to_int(r)] > 0; });
      const auto from = t.wait_for_any(unfinished, kPatience, kDoing);
      ASSERT_TRUE(from);
      receive(t, *from, got, kDoing);
      ASSERT_EQ(got, pattern(777, to_int(*from)));
      --left[to_int(*from)];
    }
  });
}

TEST_P(TransportContract, WaitForAnyEndsWithItsTimeOrALostPeer) {
  run(2, [](Transport& t) {
    if (t.rank() == Rank{1}) return receive(t, Rank{0}, std::span<std::byte>(), kDoing);
    const Rank peer[] = {Rank{1}};
    EXPECT_EQ(t.wait_for_any(peer, milliseconds(30), kDoing), std::nullopt);
    send(t, Rank{1}, {}, kDoing);
    EXPECT_THROW(t.wait_for_any(peer, kPatience, kDoing), PeerLost);
  });
}

TEST_P(TransportContract, OneThreadSendsWhileAnotherReceives) {
  constexpr int kMessages = 300;
  run(2, [](Transport& t) {
    const Rank peer{1 - to_int(t.rank())};
    std::thread sender([&] {
      for (int i = 0; i < kMessages; ++i)
        send(t, peer, pattern(4000 + static_cast<std::size_t>(i), i), kDoing);
    });
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::byte> got(4000 + static_cast<std::size_t>(i));
      receive(t, peer, got, kDoing);
      EXPECT_EQ(got, pattern(got.size(), i));
    }
    sender.join();
  });
}

TEST_P(TransportContract, PeerThatLeavesIsLostAtOnceAndNamed) {
  std::atomic<int> named = -1;
  run(3, [&](Transport& t) {
    if (t.rank() == Rank{2}) return;
    std::vector<std::byte> got(10);
    if (t.rank() == Rank{0}) {
      try {
        receive(t, Rank{2}, got, {"all-reduce", "bucket 4"});
      } catch (const PeerLost& e) {
        named = to_int(e.fault.peer);
        EXPECT_EQ(e.fault.operation, "all-reduce of bucket 4");
        EXPECT_LT(e.fault.waited, std::chrono::seconds(5));
      }
      send(t, Rank{1}, got, kDoing);
    } else {
      receive(t, Rank{0}, got, kDoing);  // the others still work with each other
    }
  });
  EXPECT_EQ(named, 2);
}

TEST_P(TransportContract, WhatAPeerSentBeforeItLeftStillArrives) {
  run(2, [](Transport& t) {
    if (t.rank() == Rank{0}) return send(t, Rank{1}, pattern(1000, 3), kDoing);
    std::vector<std::byte> got(1000);
    receive(t, Rank{0}, got, kDoing);
    EXPECT_EQ(got, pattern(1000, 3));
    EXPECT_THROW(receive(t, Rank{0}, got, kDoing), PeerLost);
  });
}

TEST_P(TransportContract, StalledPeerIsATimeoutThatSaysHowLong) {
  std::atomic<bool> noticed = false;
  run(
      2,
      [&](Transport& t) {
        if (t.rank() == Rank{1}) {
          while (!noticed) std::this_thread::yield();
          return;
        }
        std::vector<std::byte> got(10);
        try {
          receive(t, Rank{1}, got, kDoing);
          ADD_FAILURE();
        } catch (const Timeout& e) {
          EXPECT_EQ(e.fault.peer, Rank{1});
          EXPECT_EQ(e.fault.rank, Rank{0});
          EXPECT_GE(e.fault.waited, milliseconds(300));
        }
        noticed = true;
      },
      milliseconds(300));
}

TEST_P(TransportContract, PeerThatDoesNotReadIsATimeoutToo) {
  std::atomic<bool> noticed = false;
  run(
      2,
      [&](Transport& t) {
        if (t.rank() == Rank{1}) {
          while (!noticed) std::this_thread::yield();
          return;
        }
        EXPECT_THROW(send(t, Rank{1}, pattern(64 << 20, 1), kDoing), Timeout);
        noticed = true;
      },
      milliseconds(300));
}

// Gets on, and tells nobody, for so long.
void be_busy(const Transport& t, Clock::duration length) {
  for (const auto begin = Clock::now(); Clock::now() - begin < length;) {
    t.board().advance(t.rank());
    std::this_thread::yield();
  }
}

TEST_P(TransportContract, BusyPeerIsWaitedForAndSoIsWhoWaitsForIt) {
  constexpr auto kTimeout = milliseconds(500);
  run(
      3,
      [&](Transport& t) {  // 0 waits for 1, which waits for 2
        std::vector<std::byte> word(10);
        if (t.rank() == Rank{2}) be_busy(t, 3 * kTimeout);
        if (t.rank() < Rank{2}) receive(t, Rank{to_int(t.rank()) + 1}, word, kDoing);
        if (t.rank() > Rank{0}) send(t, Rank{to_int(t.rank()) - 1}, word, kDoing);
      },
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
  run(2, [](Transport& t) {
    if (t.rank() == Rank{1}) {
      std::vector<std::byte> got(1);
      EXPECT_THROW(receive(t, Rank{0}, got, kDoing), PeerLost);
      return;
    }
    std::thread canceller([&] { t.cancel(); });
    std::vector<std::byte> got(10);
    EXPECT_THROW(receive(t, Rank{1}, got, kDoing), RunError);
    canceller.join();
  });
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
