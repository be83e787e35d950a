#include "ps/payload.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::ps {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::size_t kFloats = 33;
const net::Activity kDoing{"a push of a test"};

// A worker's gradients, where a server can read them if there is such a place.
std::span<float> gradients_of(net::Transport& t, std::vector<float>& own) {
  own.resize(kFloats);
  std::span<float> gradients = own;
  if (auto* memory = t.peer_memory()) {
    gradients = {reinterpret_cast<float*>(memory->arena(t.rank()).data()) + 7, kFloats};
  }
  std::iota(gradients.begin(), gradients.end(), 1.0F);
  return gradients;
}

class PayloadsOver : public ::testing::TestWithParam<net::Medium> {};
INSTANTIATE_TEST_SUITE_P(All, PayloadsOver, ::testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& p) { return p.param == net::Medium::memory ? "Memory" : "Sockets"; });

TEST_P(PayloadsOver, ServerReceivesWhatAWorkerAnnouncesAndInPlaceNothingIsCopied) {
  net::run_as_threads(GetParam(), 2, kTimeout, [](net::Transport& t) {
    const Payloads payloads(t);
    if (t.rank() == Rank{0}) {
      std::vector<float> own;
      Header header{.verb = Verb::push};
      const auto payload = payloads.announce(header, gradients_of(t, own));
      EXPECT_EQ(payload.empty(), payloads.in_place());
      send(t, Rank{1}, header, payload, kDoing);
      receive_header(t, Rank{1}, kDoing);  // they stay until they were read
      return;
    }
    auto arriving = payloads.room_for_arriving(kFloats);
    const Header header = receive_header(t, Rank{0}, kDoing);
    const auto gradients = payloads.receive(Rank{0}, header, kFloats, arriving, kDoing);
    ASSERT_EQ(gradients.size(), kFloats);
    for (std::size_t i = 0; i < kFloats; ++i) EXPECT_EQ(gradients[i], static_cast<float>(i + 1));
    if (payloads.in_place()) {
      EXPECT_TRUE(arriving.empty());
      EXPECT_EQ(reinterpret_cast<const std::byte*>(gradients.data()),
                t.peer_memory()->arena(Rank{0}).data() + 7 * sizeof(float));
    } else {
      EXPECT_EQ(gradients.data(), arriving.data());
    }
    send(t, Rank{0}, {.verb = Verb::counted}, {}, kDoing);
  });
}

TEST_P(PayloadsOver, WorkerReadsWhatAServerHoldsWhereItIsInReach) {
  net::run_as_threads(GetParam(), 2, kTimeout, [](net::Transport& t) {
    constexpr std::size_t kAt = 2 * sizeof(Gate);
    const Payloads payloads(t);
    if (t.rank() == Rank{1}) {
      std::vector<float> own;
      const auto room = payloads.room_to_hold(kAt + sizeof(Gate) + kFloats * sizeof(float), own);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(room.data()) % alignof(Gate), 0U);
      values_behind(room, kAt, kFloats)[kFloats - 1] = 5;
      send(t, Rank{0}, {.verb = Verb::welcome}, {}, kDoing);
      receive_header(t, Rank{0}, kDoing);
      return;
    }
    receive_header(t, Rank{1}, kDoing);
    const auto held = payloads.held_by(Rank{1}, kAt, kFloats);
    EXPECT_EQ(held.has_value(), payloads.in_place());
    if (held) {
      EXPECT_EQ(held->values[kFloats - 1], 5.0F);
    }
    send(t, Rank{1}, {.verb = Verb::bye}, {}, kDoing);
  });
}

// A header comes from outside: it may say anything.
TEST(Payloads, PlaceOutsideOfTheWorkersArenaIsRefused) {
  net::run_as_threads(net::Medium::memory, 2, kTimeout, [](net::Transport& t) {
    const Payloads payloads(t);
    const std::uint64_t end = t.peer_memory()->arena(Rank{0}).size();
    const std::uint64_t last = end - kFloats * sizeof(float);
    std::vector<float> arriving;
    const auto receive = [&](const Header& header) {
      return payloads.receive(Rank{0}, header, kFloats, arriving, kDoing).size();
    };
    EXPECT_EQ(receive({.memory_at = last}), kFloats);
    for (const std::uint64_t at :
         std::array{last + 1, last + sizeof(float), end, end + sizeof(float), ~std::uint64_t{3}}) {
      EXPECT_THROW(receive({.memory_at = at}), ProtocolError) << at;
    }
    EXPECT_THROW(receive({.memory_at = 0, .bytes = kFloats * sizeof(float)}), ProtocolError);
  });
}

TEST(Payloads, ServerThatHoldsMoreThanItsArenaIsRefused) {
  net::run_as_threads(net::Medium::memory, 1, kTimeout, [](net::Transport& t) {
    const std::size_t all = t.peer_memory()->arena(t.rank()).size();
    std::vector<float> own;
    EXPECT_EQ(Payloads(t).room_to_hold(all, own).size(), all);
    EXPECT_THROW(Payloads(t).room_to_hold(all + 1, own), RunError);
  });
}

}  // namespace
}  // namespace tutti::ps
