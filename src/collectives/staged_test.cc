#include "collectives/staged.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::collectives {
namespace {

constexpr std::size_t kPiece = (std::size_t{128} << 10) / sizeof(float);  // elements, between two ranks

// One rank's side: it meets the others before every call, as the contract asks.
class Member {
 public:
  explicit Member(net::Transport& transport)
      : transport_(transport),
        memory_(*transport.peer_memory()),
        staging_(memory_, transport.rank(), transport.world(), 4096) {}

  int rank() const { return to_int(transport_.rank()); }
  int world() const { return transport_.world(); }

  void all_reduce(const Buffer& buffer, ReduceOp op) {
    memory_.advance(++clock_);
    for (int r = 0; r < world(); ++r) {
      if (r != rank()) memory_.await(Rank{r}, clock_, {"meeting"});
    }
    clock_ = staging_.all_reduce(buffer, op, clock_, {"all-reduce"});
  }

 private:
  net::Transport& transport_;
  net::PeerMemory& memory_;
  Staging staging_;
  std::uint64_t clock_ = 0;
};

void run(int world, const std::function<void(Member&)>& body) {
  net::run_as_threads(net::Medium::memory, world, std::chrono::seconds(60), [&](net::Transport& transport) {
    Member member(transport);
    body(member);
  });
}

// Whole numbers so small that sums and products of them are exact.
template <class T>
T input(int rank, std::size_t i) {
  return static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5 + 1);
}

template <class T>
T expected(ReduceOp op, int world, std::size_t i) {
  T result = input<T>(0, i);
  for (int r = 1; r < world; ++r) {
    const T x = input<T>(r, i);
    switch (op) {
      case ReduceOp::min:
        result = std::min(result, x);
        break;
      case ReduceOp::product:
        result *= x;
        break;
      default:
        result += x;
    }
  }
  return op == ReduceOp::average ? result / static_cast<T>(world) : result;
}

template <class T>
void check(Member& member, DType type, ReduceOp op, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = input<T>(member.rank(), i);
  member.all_reduce({values.data(), count, type}, op);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(values[i], expected<T>(op, member.world(), i))
        << "element " << i << " of " << count << ", rank " << member.rank() << " of " << member.world()
        << ", " << name_of(op);
  }
}

TEST(Staged, EveryLengthIsExactAtAnyWorld) {
  for (const int world : {1, 2, 3, 4, 5}) {
    run(world, [](Member& member) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1,
                                      5 * kPiece + 3, 12 * kPiece, 13 * kPiece, 40 * kPiece + 7}) {
        check<float>(member, DType::f32, ReduceOp::sum, count);
      }
    });
  }
}

TEST(Staged, EveryOperationIsExact) {
  for (const int world : {2, 3}) {
    run(world, [](Member& member) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::product}) {
        check<double>(member, DType::f64, op, 30 * kPiece + 1);
        check<std::int64_t>(member, DType::i64, op, 30 * kPiece + 1);
      }
    });
  }
}

// The lesser of 0 and -0 depends on which comes first, and must not depend on the rank.
TEST(Staged, TheBitsAreTheSameOnEveryRank) {
  constexpr std::size_t kCount = 3 * kPiece;
  std::mutex mutex;
  std::vector<std::vector<bool>> negative;
  run(2, [&](Member& member) {
    std::vector<float> values(kCount, member.rank() == 0 ? 0.0F : -0.0F);
    member.all_reduce({values.data(), kCount, DType::f32}, ReduceOp::min);
    std::vector<bool> signs;
    for (const float x : values) signs.push_back(std::signbit(x));
    const std::lock_guard lock(mutex);
    negative.push_back(std::move(signs));
  });
  EXPECT_EQ(negative[0], negative[1]);
}

TEST(Staged, ARankThatLeavesIsNamed) {
  for (const int world : {2, 3}) {
    run(world, [&](Member& member) {
      if (member.rank() == world - 1) return;
      std::vector<float> values(kPiece);
      try {
        member.all_reduce({values.data(), values.size(), DType::f32}, ReduceOp::sum);
        ADD_FAILURE() << "nobody was missed";
      } catch (const PeerLost& e) {
        EXPECT_EQ(to_int(e.fault.peer), world - 1);
      }
    });
  }
}

}  // namespace
}  // namespace tutti::collectives
