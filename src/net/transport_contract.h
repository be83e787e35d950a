// What every transport promises (net/transport.h), as checks that its tests run on each rank of a world. All
// ranks make the same check. Where it needs fewer ranks than there are, the others leave at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net/frame.h"
#include "net/transport.h"

namespace tutti::net::contract {

inline constexpr auto kPatience = std::chrono::seconds(60);
inline constexpr Activity kDoing{"test"};

// Returns when every rank has called it; on its way no message of the transport's.
using Meet = std::function<void()>;

inline std::vector<std::byte> pattern(std::size_t n, int seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed) * 7) % 251);
  return bytes;
}

inline void messages_arrive_complete_and_in_order(Transport& t) {
  for (int i = 0; i < 200; ++i) {
    const auto sent = pattern(static_cast<std::size_t>(i) * 37, i);
    if (t.rank() == Rank{0}) {
      send(t, Rank{1}, sent, kDoing);
    } else if (t.rank() == Rank{1}) {
      std::vector<std::byte> got(sent.size());
      receive(t, Rank{0}, got, kDoing);
      ASSERT_EQ(got, sent);
    }
  }
}

inline void large_messages_both_ways_at_once_do_not_block_each_other(Transport& t) {
  constexpr std::size_t kBytes = 9 << 20;
  if (t.rank() > Rank{1}) return;
  const Rank peer{1 - to_int(t.rank())};
  const auto mine = pattern(kBytes, to_int(t.rank()));
  std::vector<std::byte> got(kBytes);
  const Outgoing out[] = {{peer, mine}};
  const Incoming in[] = {{peer, got, got.size()}};
  t.transfer(out, in, kDoing);
  EXPECT_EQ(got, pattern(kBytes, to_int(peer)));
}

inline void everyone_sends_to_everyone_at_once(Transport& t) {
  const int me = to_int(t.rank());
  const auto others = static_cast<std::size_t>(t.world());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<std::byte>> mine(others);
    std::vector<std::vector<std::byte>> theirs(others);
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int p = 0; p < t.world(); ++p) {
      if (p == me) continue;
      mine[p] = pattern(static_cast<std::size_t>(1000 + me * 13 + p), me * 100 + p + round);
      theirs[p].resize(static_cast<std::size_t>(1000 + p * 13 + me));
      out.push_back({Rank{p}, mine[p]});
      in.push_back({Rank{p}, theirs[p], theirs[p].size()});
    }
    t.transfer(out, in, kDoing);
    for (int p = 0; p < t.world(); ++p) {
      if (p == me) continue;
      ASSERT_EQ(theirs[p], pattern(theirs[p].size(), p * 100 + me + round));
    }
  }
}

inline void window_is_handed_over_piece_by_piece_in_order(Transport& t) {
  const auto sent = pattern(3 * kFrameBytes + 10'003, 5);
  if (t.rank() == Rank{0}) return send(t, Rank{1}, sent, kDoing);
  if (t.rank() != Rank{1}) return;
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
}

inline void different_lengths_are_a_protocol_error_before_any_byte_is_stored(Transport& t) {
  if (t.rank() == Rank{1}) {
    std::vector<std::byte> got(50, std::byte{9});
    EXPECT_THROW(receive(t, Rank{0}, got, kDoing), ProtocolError);
    EXPECT_EQ(got, std::vector<std::byte>(50, std::byte{9}));
  } else if (t.rank() == Rank{0}) {
    try {
      send(t, Rank{1}, pattern(60, 1), kDoing);
    } catch (const PeerLost&) {  // the other end has closed before all was written
    }
  }
}

inline void wait_for_any_says_whose_message_has_come(Transport& t) {
  constexpr int kRounds = 100;
  const auto mine = pattern(777, to_int(t.rank()));
  if (t.rank() != Rank{0}) {
    for (int i = 0; i < kRounds; ++i) send(t, Rank{0}, mine, kDoing);
    return;
  }
  EXPECT_EQ(t.wait_for_any({}, std::chrono::milliseconds(1), kDoing), std::nullopt);
  std::vector<int> left(static_cast<std::size_t>(t.world()), kRounds);
  left[0] = 0;
  std::vector<std::byte> got(777);
  for (int i = 0; i < (t.world() - 1) * kRounds; ++i) {
    std::vector<Rank> unfinished;
    for (int p = 1; p < t.world(); ++p) {
      if (left[static_cast<std::size_t>(p)] > 0) unfinished.push_back(Rank{p});
    }
    const auto from = t.wait_for_any(unfinished, kPatience, kDoing);
    ASSERT_TRUE(from);
    receive(t, *from, got, kDoing);
    ASSERT_EQ(got, pattern(777, to_int(*from)));
    --left[static_cast<std::size_t>(to_int(*from))];
  }
}

inline void wait_for_any_ends_with_its_time_or_a_lost_peer(Transport& t) {
  if (t.rank() == Rank{1}) return receive(t, Rank{0}, std::span<std::byte>(), kDoing);
  if (t.rank() != Rank{0}) return;
  const Rank peer[] = {Rank{1}};
  EXPECT_EQ(t.wait_for_any(peer, std::chrono::milliseconds(30), kDoing), std::nullopt);
  send(t, Rank{1}, {}, kDoing);
  EXPECT_THROW(t.wait_for_any(peer, kPatience, kDoing), PeerLost);
}

inline void one_thread_sends_while_another_receives(Transport& t) {
  constexpr int kMessages = 300;
  if (t.rank() > Rank{1}) return;
  const Rank peer{1 - to_int(t.rank())};
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) send(t, peer, pattern(4000 + static_cast<std::size_t>(i), i), kDoing);
  });
  for (int i = 0; i < kMessages; ++i) {
    std::vector<std::byte> got(4000 + static_cast<std::size_t>(i));
    receive(t, peer, got, kDoing);
    EXPECT_EQ(got, pattern(got.size(), i));
  }
  sender.join();
}

// The last rank leaves; the others still work with each other. For 3 ranks and more.
inline void peer_that_leaves_is_lost_at_once_and_named(Transport& t) {
  const Rank last{t.world() - 1};
  std::vector<std::byte> got(10);
  if (t.rank() == Rank{0}) {
    try {
      receive(t, last, got, {"all-reduce", "bucket 4"});
      ADD_FAILURE();
    } catch (const PeerLost& e) {
      EXPECT_EQ(e.fault.peer, last);
      EXPECT_EQ(e.fault.operation, "all-reduce of bucket 4");
      EXPECT_LT(e.fault.waited, std::chrono::seconds(5));
    }
    send(t, Rank{1}, got, kDoing);
  } else if (t.rank() == Rank{1}) {
    receive(t, Rank{0}, got, kDoing);
  }
}

inline void what_a_peer_sent_before_it_left_still_arrives(Transport& t) {
  if (t.rank() == Rank{0}) return send(t, Rank{1}, pattern(1000, 3), kDoing);
  if (t.rank() != Rank{1}) return;
  std::vector<std::byte> got(1000);
  receive(t, Rank{0}, got, kDoing);
  EXPECT_EQ(got, pattern(1000, 3));
  EXPECT_THROW(receive(t, Rank{0}, got, kDoing), PeerLost);
}

// Of a transport whose time-out is 300 ms.
inline void stalled_peer_is_a_timeout_that_says_how_long(Transport& t, const Meet& meet) {
  if (t.rank() == Rank{0}) {
    std::vector<std::byte> got(10);
    try {
      receive(t, Rank{1}, got, kDoing);
      ADD_FAILURE();
    } catch (const Timeout& e) {
      EXPECT_EQ(e.fault.peer, Rank{1});
      EXPECT_EQ(e.fault.rank, Rank{0});
      EXPECT_GE(e.fault.waited, std::chrono::milliseconds(300));
    }
  }
  meet();
}

// Likewise.
inline void peer_that_does_not_read_is_a_timeout_too(Transport& t, const Meet& meet) {
  if (t.rank() == Rank{0}) {
    EXPECT_THROW(send(t, Rank{1}, pattern(64 << 20, 1), kDoing), Timeout);
  }
  meet();
}

// Gets on, and tells nobody, for so long.
inline void be_busy(const Transport& t, Clock::duration length) {
  for (const auto begin = Clock::now(); Clock::now() - begin < length;) {
    t.board().advance(t.rank());
    std::this_thread::yield();
  }
}

// 0 waits for 1, which waits for 2. For 3 ranks and more, with this time-out.
inline void busy_peer_is_waited_for_and_so_is_who_waits_for_it(Transport& t, Clock::duration timeout) {
  std::vector<std::byte> word(10);
  if (t.rank() > Rank{2}) return;
  if (t.rank() == Rank{2}) be_busy(t, 3 * timeout);
  if (t.rank() < Rank{2}) receive(t, Rank{to_int(t.rank()) + 1}, word, kDoing);
  if (t.rank() > Rank{0}) send(t, Rank{to_int(t.rank()) - 1}, word, kDoing);
}

inline void cancel_ends_a_blocked_call(Transport& t) {
  if (t.rank() == Rank{1}) {
    std::vector<std::byte> got(1);
    EXPECT_THROW(receive(t, Rank{0}, got, kDoing), PeerLost);
  } else if (t.rank() == Rank{0}) {
    std::thread canceller([&] { t.cancel(); });
    std::vector<std::byte> got(10);
    EXPECT_THROW(receive(t, Rank{1}, got, kDoing), RunError);
    canceller.join();
  }
}

}  // namespace tutti::net::contract
