#include "lab/first_difference.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/safetensors.h"
#include "train/record_files.h"

namespace tutti::lab {
namespace {

using Digests = std::vector<std::pair<std::string, std::string>>;

// A step of a worker with two tensors, "b" before "a" in the model's order.
RecordedStep step_of(std::int64_t step, int rank, const Digests& otherwise = {}) {
  const auto unit = "rank-" + std::to_string(rank);
  RecordedStep line{step,
                    {{"gradient/" + unit + "/b", "1"},
                     {"gradient/" + unit + "/a", "2"},
                     {"mean/b", "3"},
                     {"mean/a", "4"},
                     {"parameter/b", "5"},
                     {"parameter/a", "6"},
                     {"state/exp_avg.b", "7"},
                     {"state/exp_avg.a", "8"}}};
  for (const auto& [key, digest] : otherwise) {
    for (auto& [k, d] : line.digests) {
      if (k == key) d = digest;
    }
  }
  return line;
}

// Three steps of so many workers that begin equal; step 2 of one rank is otherwise.
RecordedRun run_of(int workers, int rank = -1, const Digests& otherwise = {}) {
  RecordedRun run;
  for (int r = 0; r < workers; ++r) {
    auto& steps = run.emplace_back();
    steps.push_back({0, {{"parameter/b", "5"}, {"parameter/a", "6"}}});
    for (int s = 1; s <= 3; ++s) {
      steps.push_back(step_of(s, r, r == rank && s == 2 ? otherwise : Digests{}));
    }
  }
  return run;
}

TEST(FirstDifference, IsNoneInEqualRuns) {
  EXPECT_FALSE(first_difference(run_of(3), run_of(3)));
  EXPECT_FALSE(first_difference(run_of(3), run_of(2)));
  EXPECT_FALSE(first_difference({}, {}));
}

TEST(FirstDifference, OfAStepIsTheEarliestStage) {
  const auto place = first_difference(
      run_of(3), run_of(3, 1, {{"gradient/rank-1/a", "x"}, {"mean/b", "x"}, {"parameter/b", "x"}}));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->step, 2);
  EXPECT_EQ(place->stage, "gradient");
  EXPECT_EQ(place->tensor, "a");
  EXPECT_EQ(place->who, std::vector<std::string>{"rank-1"});
  EXPECT_EQ(place->key(), "gradient/rank-1/a");
  EXPECT_FALSE(place->begins_so);
}

TEST(FirstDifference, OfAStageIsTheFirstTensorInTheModelsOrderWithAllWhoHaveIt) {
  auto other = run_of(3, 2, {{"mean/b", "x"}, {"mean/a", "x"}});
  other[1][2] = step_of(2, 1, {{"mean/b", "y"}});
  const auto place = first_difference(run_of(3), other);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->stage, "mean");
  EXPECT_EQ(place->tensor, "b");
  EXPECT_EQ(place->who, (std::vector<std::string>{"rank-1", "rank-2"}));
  EXPECT_TRUE(place->gradients_known);
  EXPECT_EQ(place->key(), "mean/b");
}

TEST(FirstDifference, AnUpdateIsOneOnlyIfTheMeansAgree) {
  const auto place = first_difference(run_of(2), run_of(2, 0, {{"parameter/a", "x"}}));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->stage, "parameter");
  EXPECT_TRUE(place->means_known);
  const auto state = first_difference(run_of(2), run_of(2, 0, {{"state/exp_avg.b", "x"}}));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->tensor, "exp_avg.b");
  // Servers that update tell workers no mean.
  auto a = run_of(2);
  auto b = run_of(2, 0, {{"parameter/a", "x"}});
  for (auto* run : {&a, &b}) {
    for (auto& rank : *run) {
      for (auto& step : rank)
        std::erase_if(step.digests, [](const auto& d) { return d.first.starts_with("mean/"); });
    }
  }
  EXPECT_FALSE(first_difference(a, b)->means_known);
}

TEST(FirstDifference, OwnGradientsOfDifferentNumbersOfWorkersAreNotCompared) {
  const auto other = run_of(3, 0, {{"gradient/rank-0/b", "x"}, {"mean/a", "x"}});
  const auto place = first_difference(run_of(2), other);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->stage, "mean");
  EXPECT_FALSE(place->gradients_known);
  // A rank that the other run does not have is held against its rank 0.
  EXPECT_EQ(first_difference(run_of(2), run_of(3, 2, {{"mean/a", "x"}}))->who,
            std::vector<std::string>{"rank-2"});
}

// Whoever has computed them, and in however many runs: a unit that both have is compared.
TEST(FirstDifference, UnitsThatAreNoRanksAreComparedWhoeverHasThem) {
  const RecordedRun one = {{{1, {{"gradient/shard-0/a", "1"}, {"gradient/shard-1/a", "2"}}}}};
  const RecordedRun two = {{{1, {{"gradient/shard-0/a", "1"}}}}, {{1, {{"gradient/shard-1/a", "x"}}}}};
  const auto place = first_difference(one, two);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->who, std::vector<std::string>{"shard-1"});
}

TEST(FirstDifference, WhatRunsBeginWithComesBeforeTheirSteps) {
  auto other = run_of(2);
  for (auto& rank : other) rank[0].digests[1].second = "x";
  const auto place = first_difference(run_of(2), other);
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->begins_so);
  EXPECT_EQ(place->step, 0);
  EXPECT_EQ(place->tensor, "a");
}

TEST(FirstElement, IsFoundInTheFilesOfItsRankWithItsDistance) {
  const ScratchFolder folder;
  const auto write = [&](const char* run, int rank, std::vector<float> values) {
    const auto path = train::record_step_path(folder.path() / run, 2, rank);
    std::filesystem::create_directories(path.parent_path());
    checkpoint::write_safetensors(path,
                                  std::vector<checkpoint::TensorView>{
                                      {"mean/a", DType::f32, {2, 3}, std::as_bytes(std::span(values))}});
  };
  for (const char* run : {"a", "b"}) {
    for (int rank = 0; rank < 2; ++rank) write(run, rank, {0, 1, 2, 3, 4, 5});
  }
  write("b", 1, {0, 1, 2, 3, std::nextafter(std::nextafter(4.0F, 5.0F), 5.0F), 6});
  const Place place{.step = 2, .stage = "mean", .tensor = "a", .who = {"rank-1"}};
  const auto found = first_element(folder.path() / "a", folder.path() / "b", place, 2, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->element, 4);
  EXPECT_EQ(found->index, "[1, 1]");
  EXPECT_EQ(found->first, "4");
  EXPECT_EQ(found->second, "4.00000095");
  EXPECT_EQ(found->ulps, 2U);
  EXPECT_EQ(found->differing, 2);
  EXPECT_EQ(found->elements, 6);
  EXPECT_FALSE(first_element(folder.path() / "a", folder.path() / "a", place, 2, 2));
}

TEST(ReadRecords, DamagedAndMissingOnesAreNamed) {
  const ScratchFolder folder;
  EXPECT_THROW((void)read_records(folder.path(), 1), DataError);
  const auto path = train::record_digests_path(folder.path(), 0);
  std::filesystem::create_directories(path.parent_path());
  write_file_atomically(path, "{\"step\":3,\"digests\":[[\"mean/a\",\"0f\"]]}\n");
  const auto run = read_records(folder.path(), 1);
  ASSERT_EQ(run[0].size(), 1U);
  EXPECT_EQ(run[0][0].digests, (Digests{{"mean/a", "0f"}}));
  write_file_atomically(path, "nonsense\n");
  EXPECT_THROW((void)read_records(folder.path(), 1), DataError);
}

}  // namespace
}  // namespace tutti::lab
