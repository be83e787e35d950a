// One contract for every algorithm and operation; what is particular to an algorithm is in its own test.
#include "collectives/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/simulate.h"
#include "collectives/validate.h"

namespace tutti::collectives {
namespace {

using Value = std::int64_t;
using Buffers = std::vector<std::vector<Value>>;

constexpr int kLargestWorld = 17;
constexpr std::size_t kCounts[] = {0, 1, 2, 3, 5, 16, 17, 64, 1000};

// Calls body(world, count, root) for all of them, with the first, the last and a middle root.
template <class Body>
void for_all_shapes(Body body) {
  for (int world = 1; world <= kLargestWorld; ++world) {
    for (const int root : std::set<int>{0, world / 2, world - 1}) {
      for (const std::size_t count : kCounts) {
        SCOPED_TRACE(fmt::format("world {} count {} root {}", world, count, root));
        body(world, count, Rank{root});
        if (testing::Test::HasFailure()) return;
      }
    }
    // Long enough for a chain to be cut into blocks.
    if (world == 2 || world == 5) body(world, std::size_t{50'003}, Rank{1});
  }
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

class EverySchedule : public testing::TestWithParam<std::tuple<Operation, Algorithm>> {
 protected:
  Operation operation() const { return std::get<0>(GetParam()); }
  Algorithm algorithm() const { return std::get<1>(GetParam()); }
};
class EveryScheduleWithData : public EverySchedule {};  // a barrier has none

// A number of no pattern for each rank and element.
Value input(int rank, std::size_t i) {
  return (rank + 1) * 1'000'003 + static_cast<Value>(i * i) * (rank + 7);
}

Value sum_of_inputs(int world, std::size_t i) {
  Value sum = 0;
  for (int rank = 0; rank < world; ++rank) sum += input(rank, i);
  return sum;
}

int owner_of(std::size_t i, std::size_t count, int world) {
  int rank = 0;
  while (i >= equal_chunk(count, world, rank).first + equal_chunk(count, world, rank).count) ++rank;
  return rank;
}

Buffers inputs(Operation operation, int world, std::size_t count, Rank root) {
  Buffers buffers(static_cast<std::size_t>(world), std::vector<Value>(count, -1));
  for (int rank = 0; rank < world; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      if (operation == Operation::all_gather && owner_of(i, count, world) != rank) continue;
      if (operation == Operation::broadcast && Rank{rank} != root) continue;
      buffers[static_cast<std::size_t>(rank)][i] = input(rank, i);
    }
  }
  return buffers;
}

// True if the operation promises element i at this rank, and then what it promises.
bool promised(Operation operation, int rank, int world, std::size_t i, std::size_t count, Rank root,
              Value& value) {
  const int owner = owner_of(i, count, world);
  value = sum_of_inputs(world, i);
  if (operation == Operation::all_gather) value = input(owner, i);
  if (operation == Operation::broadcast) value = input(to_int(root), i);
  if (operation == Operation::reduce) return Rank{rank} == root;
  if (operation == Operation::reduce_scatter) return owner == rank;
  return true;
}

TEST_P(EverySchedule, KeepsTheRules) {
  for_all_shapes([&](int world, std::size_t count, Rank root) {
    const auto all = schedules_of_all(operation(), algorithm(), world, count, root);
    EXPECT_EQ(broken_rule(all, operation() == Operation::barrier ? 1 : count,
                          info_of(algorithm()).runs == AlgorithmInfo::Runs::by_messages),
              "");
  });
}

TEST_P(EveryScheduleWithData, LeavesWhatTheOperationPromises) {
  for_all_shapes([&](int world, std::size_t count, Rank root) {
    Buffers buffers = inputs(operation(), world, count, root);
    simulate<Value>(schedules_of_all(operation(), algorithm(), world, count, root), buffers, std::plus<>());
    std::size_t wrong = 0;
    for (int rank = 0; rank < world; ++rank) {
      for (std::size_t i = 0; i < count; ++i) {
        Value value = 0;
        if (!promised(operation(), rank, world, i, count, root, value)) continue;
        if (buffers[static_cast<std::size_t>(rank)][i] != value) ++wrong;
      }
    }
    EXPECT_EQ(wrong, 0U);
  });
}

TEST_P(EveryAlgorithm, HearsFromEveryoneBeforeABarrierEnds) {
  for_all_shapes([&](int world, std::size_t count, Rank root) {
    Buffers heard;
    for (int rank = 0; rank < world; ++rank) heard.push_back({Value{1} << rank});
    simulate<Value>(schedules_of_all(Operation::barrier, GetParam(), world, count, root), heard,
                    std::bit_or<>());
    for (const auto& buffer : heard) EXPECT_EQ(buffer[0], (Value{1} << world) - 1);
  });
}

TEST_P(EveryAlgorithm, AllReduceLeavesTheSameBitsEverywhere) {
  for_all_shapes([&](int world, std::size_t count, Rank) {
    std::vector<std::vector<float>> buffers;
    for (int rank = 0; rank < world; ++rank) {
      auto& buffer = buffers.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) buffer[i] = 1.0F / static_cast<float>(input(rank, i));
    }
    simulate<float>(schedules_of_all(Operation::all_reduce, GetParam(), world, count), buffers,
                    std::plus<>());
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, buffers[0]);
  });
}

std::string spelled(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

// Those whose schedules are run; of the others (one-pass, one-shot) they tell who reads what.
std::vector<Algorithm> run_algorithms() {
  std::vector<Algorithm> all;
  for (std::size_t i = 0; i < algorithms().size(); ++i) {
    const auto runs = algorithms()[i].runs;
    if (runs == AlgorithmInfo::Runs::in_place || runs == AlgorithmInfo::Runs::across_hosts) continue;
    all.push_back(static_cast<Algorithm>(i));
  }
  return all;
}

std::vector<std::tuple<Operation, Algorithm>> run_schedules(bool barriers) {
  std::vector<std::tuple<Operation, Algorithm>> all;
  for (const Operation o : {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                            Operation::broadcast, Operation::reduce, Operation::barrier}) {
    if (o == Operation::barrier && !barriers) continue;
    for (const Algorithm a : run_algorithms()) {
      if (serves(a, {o, ReduceOp::sum, 0, 2, Path::network})) all.emplace_back(o, a);
    }
  }
  return all;
}

const auto kNameOfBoth = [](const testing::TestParamInfo<std::tuple<Operation, Algorithm>>& info) {
  return spelled(fmt::format("{}_{}", name_of(std::get<0>(info.param)), name_of(std::get<1>(info.param))));
};

INSTANTIATE_TEST_SUITE_P(, EverySchedule, testing::ValuesIn(run_schedules(true)), kNameOfBoth);
INSTANTIATE_TEST_SUITE_P(, EveryScheduleWithData, testing::ValuesIn(run_schedules(false)), kNameOfBoth);
INSTANTIATE_TEST_SUITE_P(, EveryAlgorithm, testing::ValuesIn(run_algorithms()),
                         [](const auto& info) { return spelled(std::string(name_of(info.param))); });

TEST(EqualPart, CoversAllElementsInOrder) {
  for (const std::size_t count : kCounts) {
    for (int parts = 1; parts <= kLargestWorld; ++parts) {
      std::size_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Chunk chunk = equal_chunk(count, parts, part);
        EXPECT_EQ(chunk.first, next);
        EXPECT_LE(chunk.count, count / static_cast<std::size_t>(parts) + 1);
        next += chunk.count;
      }
      EXPECT_EQ(next, count);
    }
  }
  EXPECT_EQ(equal_chunk(7, 3, 0), (Chunk{0, 3}));
  EXPECT_EQ(equal_chunk(7, 3, 2), (Chunk{5, 2}));
}

}  // namespace
}  // namespace tutti::collectives
