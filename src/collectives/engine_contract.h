// What every engine promises (collectives/collectives.h), as checks that its tests run on each rank of a
// world. All ranks make the same checks in the same order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/shards_fixture.h"

namespace tutti::collectives::contract {

// Where a buffer lies: in memory from Collectives::allocate(), or elsewhere.
enum class Memory { allocated, heap };

inline std::int32_t input(int rank, std::size_t i) {
  return static_cast<std::int32_t>((rank + 1) * 3 + static_cast<int>(i % 17));
}

// Of all ranks' inputs.
inline std::int32_t total(int world, std::size_t i) {
  std::int32_t sum = 0;
  for (int r = 0; r < world; ++r) sum += input(r, i);
  return sum;
}

// A buffer of `count` int32 filled with this rank's input.
struct Filled {
  Filled(Collectives& all, Memory memory, std::size_t count) : heap(memory == Memory::heap ? count : 0) {
    auto* p = heap.data();
    if (memory == Memory::allocated) p = reinterpret_cast<std::int32_t*>(all.allocate(count * 4).data());
    values = {p, count};
    refill(all.rank());
  }
  void refill(Rank rank) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = input(to_int(rank), i);
  }
  Buffer buffer() { return {values.data(), values.size(), DType::i32}; }

  std::vector<std::int32_t> heap;
  std::span<std::int32_t> values;
};

inline void all_operations_are_exact(Collectives& all, Memory memory) {
  const int world = all.world();
  for (const std::size_t count : {0, 1, 2, 3, 7, 1000, 50'001}) {
    Filled f(all, memory, count);
    all.all_reduce(f.buffer(), ReduceOp::sum);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(f.values[i], total(world, i)) << i << " of " << count;

    f.refill(all.rank());
    all.reduce_scatter(f.buffer(), ReduceOp::sum);
    const Chunk part = equal_chunk(count, world, to_int(all.rank()));
    for (std::size_t i = part.first; i < part.first + part.count; ++i)
      ASSERT_EQ(f.values[i], total(world, i));

    all.all_gather(f.buffer());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(f.values[i], total(world, i));

    for (int root = 0; root < world; ++root) {
      f.refill(all.rank());
      all.broadcast(f.buffer(), Rank{root});
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(f.values[i], input(root, i));

      f.refill(all.rank());
      all.reduce(f.buffer(), ReduceOp::max, Rank{root});
      if (all.rank() != Rank{root}) continue;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(f.values[i], input(world - 1, i));
    }
    all.barrier();
  }
}

inline void many_small_reductions_stay_in_step(Collectives& all, Memory memory) {
  Filled f(all, memory, 9);
  for (int round = 0; round < 300; ++round) {
    f.refill(all.rank());
    all.all_reduce(f.buffer(), ReduceOp::sum);
    ASSERT_EQ(f.values[8], total(all.world(), 8)) << round;
  }
}

// What ranks 0 to 3 bring, and the mean of the first two and of all; the second is the mean of the first
// three.
template <typename T>
void expect_averages(Collectives& all, DType type, std::array<T, 4> inputs, T of_two, T of_four) {
  constexpr std::size_t kCount = 101;
  const T mean = all.world() == 2 ? of_two : all.world() == 3 ? inputs[1] : of_four;
  const auto bytes = all.allocate(kCount * sizeof(T));
  const std::span<T> values(reinterpret_cast<T*>(bytes.data()), kCount);
  const Buffer buffer{values.data(), kCount, type};
  const auto refill = [&] {
    std::ranges::fill(values, inputs[static_cast<std::size_t>(to_int(all.rank()))]);
  };
  const auto expect_mean = [&](Chunk part, const char* operation) {
    for (const T value : values.subspan(part.first, part.count)) {
      ASSERT_EQ(value, mean) << operation << " of " << name_of(type);
    }
  };
  refill();
  all.all_reduce(buffer, ReduceOp::average);
  expect_mean({0, kCount}, "all-reduce");
  refill();
  all.reduce_scatter(buffer, ReduceOp::average);
  expect_mean(equal_chunk(kCount, all.world(), to_int(all.rank())), "reduce-scatter");
  refill();
  all.reduce(buffer, ReduceOp::average, Rank{1});
  if (all.rank() == Rank{1}) expect_mean({0, kCount}, "reduce");
}

// In worlds of 2 to 4.
inline void averages_are_the_means_in_every_type(Collectives& all) {
  expect_averages<float>(all, DType::f32, {1.5F, 4.5F, 7.5F, 10.5F}, 3, 6);
  expect_averages<double>(all, DType::f64, {-2.25, -6.75, -11.25, -15.75}, -4.5, -9);
  expect_averages<std::int32_t>(all, DType::i32, {7, 21, 35, 49}, 14, 28);
  expect_averages<std::int64_t>(all, DType::i64, {-9, -27, -45, -63}, -18, -36);
  // 1.5, 4.5, 7.5, 10.5; 3; 6
  expect_averages<std::uint16_t>(all, DType::bf16, {0x3fc0, 0x4090, 0x40f0, 0x4128}, 0x4040, 0x40c0);
  expect_averages<std::uint16_t>(all, DType::f16, {0x3e00, 0x4480, 0x4780, 0x4940}, 0x4200, 0x4600);
}

inline void minimum_and_maximum_of_a_nan_are_nan(Collectives& all) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    const bool last = to_int(all.rank()) == all.world() - 1;
    std::array<double, 2> values = {last ? std::numeric_limits<double>::quiet_NaN() : 1.0,
                                    static_cast<double>(to_int(all.rank()))};
    all.all_reduce({values.data(), values.size(), DType::f64}, op);
    EXPECT_TRUE(std::isnan(values[0])) << name_of(op);
    EXPECT_EQ(values[1], op == ReduceOp::min ? 0 : all.world() - 1);
  }
}

// Sums that depend on the order of their terms. Their bits are the result.
inline std::vector<float> sums_of_the_same_bits(Collectives& all) {
  constexpr std::size_t kCount = 1000;
  const auto bytes = all.allocate(kCount * sizeof(float));
  auto* x = reinterpret_cast<float*>(bytes.data());
  for (std::size_t i = 0; i < kCount; ++i)
    x[i] = std::sin(static_cast<float>(i + kCount * static_cast<std::size_t>(to_int(all.rank())))) * 1e3F;
  all.all_reduce({x, kCount, DType::f32}, ReduceOp::sum);
  const auto texts = gather_text(all, std::string(reinterpret_cast<const char*>(x), bytes.size()));
  for (const auto& text : texts) EXPECT_EQ(text, texts[0]);
  return {x, x + kCount};
}

inline void texts_of_different_lengths_are_gathered(Collectives& all) {
  const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 5, 'x'); };
  const auto texts = gather_text(all, text_of(to_int(all.rank())));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(all.world()));
  for (int r = 0; r < all.world(); ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r));
}

template <typename T>
void expect_averages_of_shards(Collectives& all, Memory memory, DType type,
                               const std::vector<std::size_t>& counts) {
  for (const int shards : {8, 13}) {
    const ShardTree tree(shards);
    for (const std::size_t count : counts) {
      auto expected = shard_sum<T>(tree, tree.root(), count);
      divide(type, expected.data(), count, shards);
      std::vector<std::vector<T>> heap;
      std::vector<Buffer> places;
      for (int p = 0; p < tree.places_of(all.world()); ++p) {
        heap.emplace_back(memory == Memory::heap ? count : 0);
        void* const block = memory == Memory::heap
                                ? heap.back().data()
                                : static_cast<void*>(all.allocate(count * sizeof(T)).data());
        places.push_back({block, count, type});
      }
      const auto refill = [&] {
        for (const auto& [node, place] : tree.held_of(tree.run_of(to_int(all.rank()), all.world()))) {
          std::ranges::copy(shard_sum<T>(tree, node, count),
                            static_cast<T*>(places[static_cast<std::size_t>(place)].data));
        }
      };
      const auto expect_mean = [&](const char* where) {
        EXPECT_EQ(std::memcmp(places[0].data, expected.data(), count * sizeof(T)), 0)
            << where << " of " << name_of(type) << ": " << shards << " shards, " << all.world() << " ranks, "
            << count << " elements";
      };
      refill();
      all.average_shards(Operation::all_reduce, {tree, places});
      expect_mean("all-reduce");
      refill();
      const Rank root{all.world() - 1};
      all.average_shards(Operation::reduce, {tree, places}, root);
      if (all.rank() == root) expect_mean("reduce");
    }
  }
}

// Whatever the world; no more than 8 ranks. Gradients are f32; running statistics of shards travel as f64.
inline void shards_are_averaged_in_the_order_of_their_tree(Collectives& all, Memory memory,
                                                           const std::vector<std::size_t>& counts = {1,
                                                                                                     1000}) {
  expect_averages_of_shards<float>(all, memory, DType::f32, counts);
  expect_averages_of_shards<double>(all, memory, DType::f64, {1, 1001});
}

inline void memory_that_was_taken_back_is_zero_again(Collectives& all) {
  const auto mark = all.mark();
  for (int round = 0; round < 3; ++round) {
    const auto block = all.allocate(1 << 20);
    EXPECT_EQ(block[1 << 19], std::byte{0});
    block[1 << 19] = std::byte{9};
    all.release(mark);
  }
}

}  // namespace tutti::collectives::contract
