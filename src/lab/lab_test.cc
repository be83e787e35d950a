#include <gtest/gtest.h>

#include "base/error.h"
#include "collectives/native.h"
#include "lab/bench_allreduce.h"
#include "net/inproc.h"
#include "ps/server_fixture.h"

namespace tutti::lab {
namespace {

TEST(BenchAllreduce, RowsAreVerifiedAndSaySize) {
  net::run_as_threads(net::Medium::memory, 3, std::chrono::seconds(60), [](net::Transport& t) {
    collectives::NativeEngine all(t);
    const auto rows = bench_allreduce(all, {.sizes = {1024, 4000}, .transport = "inproc", .iterations = 4});
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[1]["bytes"], 4000);
    EXPECT_EQ(rows[1]["ranks"], 3);
    EXPECT_EQ(rows[1]["verified"], true);
    EXPECT_GT(rows[1]["seconds"], 0.0);
  });
}

// One bit of what arrives is another: one that a sum does not round away, of a number that is not 0.
class Flipping final : public ps::fixture::Passing {
 public:
  using Passing::Passing;
  void transfer(std::span<const net::Outgoing> out, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    inner_.transfer(out, in, doing);
    for (const auto& message : in) {
      if (message.length >= kLarge) message.into[sizeof(float) + 2] ^= std::byte{0x40};
    }
  }
  static constexpr std::size_t kLarge = 1024;
};

TEST(BenchAllreduce, SumThatIsWrongIsNoResult) {
  net::run_as_threads(net::Medium::sockets, 2, std::chrono::seconds(2), [](net::Transport& t) {
    Flipping flipping(t);
    collectives::NativeEngine all(t.rank() == Rank{1} ? static_cast<net::Transport&>(flipping) : t);
    try {
      bench_allreduce(all, {.sizes = {1 << 20}, .transport = "inproc", .iterations = 4});
      ADD_FAILURE();
    } catch (const RunError& e) {
      const bool found = std::string(e.what()).find("are wrong") != std::string::npos;
      EXPECT_EQ(found, t.rank() == Rank{1}) << e.what();
    }
  });
}

}  // namespace
}  // namespace tutti::lab
