// What no strategy may do, on any medium: let a number that is none (NaN, infinities) into the parameters.
#include "exchange/finite_guard.h"

#include <gtest/gtest.h>

#include "exchange/finite_guard_fixture.h"

namespace tutti::exchange {
namespace {

using namespace fixture;

// Workers keep step, and all have the same parameters.
class FiniteTogether : public ::testing::TestWithParam<Case> {};
class FiniteSums : public ::testing::TestWithParam<Case> {};
class FiniteClipped : public ::testing::TestWithParam<Case> {};

std::vector<Case> together() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"ring", "allreduce", "reduce-broadcast"}) {
      for (const int workers : {2, 3}) all.push_back({strategy, medium, workers});
    }
    all.push_back({"ps-sync", medium, 2, 1});
    all.push_back({"ps-sync", medium, 3, 2});
    all.push_back({"ps-sync", medium, 2, 2, false, ps::Role::mean});
    all.push_back({"ps-sync", medium, 3, 2, true, ps::Role::mean});
    all.push_back({"hybrid", medium, 3, 1});
  }
  all.push_back({"local", net::Medium::memory, 1});
  return all;
}

std::vector<Case> several_workers() {
  auto all = together();
  std::erase_if(all, [](const Case& c) { return c.workers == 1; });
  return all;
}

// Where servers update, workers clip alone, and the strategy is refused.
std::vector<Case> clipped_together() {
  auto all = together();
  std::erase_if(all, [](const Case& c) { return c.strategy == "ps-sync" && c.role == ps::Role::update; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteTogether, ::testing::ValuesIn(together()),
                         [](const auto& p) { return name_of(p.param); });
INSTANTIATE_TEST_SUITE_P(All, FiniteSums, ::testing::ValuesIn(several_workers()),
                         [](const auto& p) { return name_of(p.param); });
INSTANTIATE_TEST_SUITE_P(All, FiniteClipped, ::testing::ValuesIn(clipped_together()),
                         [](const auto& p) { return name_of(p.param); });

// The step has left no trace: neither in it nor behind it.
void expect_skipped(const Trial& run) {
  const auto seen = train(run);
  Trial without = run;
  without.where = {run.where.workers == 1 ? "local" : "allreduce", net::Medium::memory, run.where.workers};
  without.fault.reset();
  without.left_out = {run.fault->step};
  const bool rows = run.with_table;
  const auto reference = rows ? std::vector<Seen>() : train(without);
  const auto at = static_cast<std::size_t>(run.fault->step);
  for (std::size_t r = 0; r < seen.size(); ++r) {
    ASSERT_FALSE(seen[r].failed) << r << seen[r].nonfinite;
    EXPECT_EQ(seen[r].skipped, std::set<int>{run.fault->step}) << r;
    EXPECT_EQ(seen[r].found.empty(), static_cast<int>(r) != run.fault->rank) << seen[r].found;
    EXPECT_EQ(seen[r].steps_done, kSteps) << "a step that is skipped counts";
    EXPECT_TRUE(torch::equal(seen[r].parameters[at], seen[r].parameters[at - 1])) << r;
    EXPECT_FALSE(torch::equal(seen[r].parameters[at + 1], seen[r].parameters[at])) << "it does not go on";
    EXPECT_TRUE(torch::equal(seen[r].parameters.back(), seen[0].parameters.back())) << r;
    EXPECT_TRUE(all_numbers(seen[r].parameters.back()));
    if (rows) continue;
    EXPECT_TRUE(torch::allclose(seen[r].parameters.back(), reference[0].parameters.back(), 1e-4, 1e-5))
        << (seen[r].parameters.back() - reference[0].parameters.back()).abs().max();
    if (run.where.workers > 2) continue;  // sums of two have the same bits in every order
    EXPECT_TRUE(torch::equal(seen[r].parameters.back(), reference[0].parameters.back()));
  }
  EXPECT_TRUE(torch::equal(seen[0].state[at], seen[0].state[at - 1]));
  EXPECT_FALSE(torch::equal(seen[0].state[at + 1], seen[0].state[at]));
}

TEST_P(FiniteTogether, AStepWithSuchAGradientIsSkippedByAllAndCounts) {
  const int last = GetParam().workers - 1;
  for (const float value : {kNaN, -kInf}) {
    expect_skipped({.where = GetParam(), .fault = Fault{.rank = last, .value = value}});
  }
  expect_skipped({.where = GetParam(), .fault = Fault{.step = 1, .tensor = "c.bias"}});
}

TEST_P(FiniteTogether, AStepWithSuchALossIsSkippedByAllAndCounts) {
  const int last = GetParam().workers - 1;
  expect_skipped({.where = GetParam(), .fault = Fault{.rank = last, .tensor = "", .value = kInf}});
}

TEST_P(FiniteSums, NumbersThatWouldOverflowTogetherAreNotUsed) {
  expect_skipped({.where = GetParam(), .fault = Fault{.value = std::numeric_limits<float>::max()}});
}

TEST_P(FiniteClipped, GradientsAreSkippedAlike) {
  expect_skipped({.where = GetParam(), .fault = Fault{}, .clip_norm = 0.1});
}

// Of a step that takes turns only the phase that cannot be used is left out.
TEST_P(FiniteTogether, APhaseIsSkippedByItself) {
  const Trial run{.where = GetParam(),
                  .fault = Fault{.rank = GetParam().workers - 1, .tensor = "a.weight"},
                  .phases = {"b.", "a.", "c."}};
  const auto part = [](const torch::Tensor& all, const std::string& layer) {
    const std::int64_t a = 7 * 9 + 9;
    const std::int64_t b = 9 * 5 + 5;
    if (layer == "a") return all.slice(0, 0, a);
    return layer == "b" ? all.slice(0, a, a + b) : all.slice(0, a + b);
  };
  for (const Seen& s : train(run)) {
    ASSERT_FALSE(s.failed) << s.nonfinite;
    EXPECT_EQ(s.skipped, std::set<int>{3});
    EXPECT_TRUE(torch::equal(part(s.parameters[3], "a"), part(s.parameters[2], "a")));
    EXPECT_FALSE(torch::equal(part(s.parameters[3], "b"), part(s.parameters[2], "b")));
    EXPECT_FALSE(torch::equal(part(s.parameters[3], "c"), part(s.parameters[2], "c")));
    EXPECT_TRUE(all_numbers(s.parameters.back()));
  }
}

// Every strategy, also those whose workers go their own ways.
class FiniteStop : public ::testing::TestWithParam<Case> {};

std::vector<Case> every() {
  std::vector<Case> all = together();
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    all.push_back({"ps-sync", medium, 2, 2, true});
    all.push_back({"ps-sync", medium, 3, 2, false, ps::Role::update, 1});
    for (const char* strategy : {"ps-async", "ps-ssp"}) all.push_back({strategy, medium, 2, 2});
    for (const char* strategy : {"easgd", "local-sgd"}) all.push_back({strategy, medium, 2});
  }
  all.push_back({"hogwild", net::Medium::memory, 2});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteStop, ::testing::ValuesIn(every()),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(FiniteStop, TheRankThatMadeItEndsAndNamesItselfAndTheTensor) {
  const int last = GetParam().workers - 1;
  for (const float value : {kNaN, kInf}) {
    const auto seen = train(
        {.where = GetParam(), .fault = Fault{.rank = last, .value = value}, .policy = OnNonFinite::stop});
    for (int r = 0; r < GetParam().workers; ++r) {
      const Seen& s = seen[static_cast<std::size_t>(r)];
      EXPECT_EQ(s.nonfinite.empty(), r != last) << s.nonfinite;
      for (const auto& p : s.parameters) EXPECT_TRUE(all_numbers(p));
    }
    EXPECT_TRUE(seen.back().nonfinite.starts_with(
        fmt::format("rank {}: step 3: the gradient of b.weight holds {} (first at element 44); ", last,
                    std::isnan(value) ? "nan" : "inf")))
        << seen.back().nonfinite;
  }
  const auto seen =
      train({.where = GetParam(), .fault = Fault{.rank = last, .tensor = ""}, .policy = OnNonFinite::stop});
  EXPECT_TRUE(seen.back().nonfinite.starts_with(fmt::format("rank {}: step 3: the loss is nan; ", last)))
      << seen.back().nonfinite;
}

// Workers that decide alone: a step of one of them is left out, and nobody else's.
class FiniteAlone : public ::testing::TestWithParam<Case> {};

std::vector<Case> alone() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const int workers : {1, 3}) {
      for (const char* strategy : {"ps-async", "ps-ssp"}) all.push_back({strategy, medium, workers, 2});
      for (const char* strategy : {"easgd", "local-sgd"}) all.push_back({strategy, medium, workers});
    }
    all.push_back({"ps-sync", medium, 3, 2, false, ps::Role::update, 1});
  }
  for (const int workers : {1, 3}) all.push_back({"hogwild", net::Medium::memory, workers});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteAlone, ::testing::ValuesIn(alone()),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(FiniteAlone, OnlyTheWorkerThatMadeItSkipsItsStep) {
  const int last = GetParam().workers - 1;
  for (const std::string tensor : {"b.weight", ""}) {
    const auto seen = train({.where = GetParam(), .fault = Fault{.rank = last, .tensor = tensor}});
    const bool replicas_differ = find_strategy(GetParam().strategy).replicas_differ;
    for (int r = 0; r <= last; ++r) {
      const Seen& s = seen[static_cast<std::size_t>(r)];
      ASSERT_FALSE(s.failed) << s.nonfinite;
      EXPECT_EQ(s.skipped, r == last ? std::set<int>{3} : std::set<int>{}) << r;
      EXPECT_TRUE(all_numbers(s.parameters.back()));
      EXPECT_TRUE(torch::equal(s.parameters.back(), seen[0].parameters.back())) << r;
      if (replicas_differ || last == 0) {  // nobody else changes what it has
        EXPECT_EQ(torch::equal(s.parameters[3], s.parameters[2]), r == last);
        EXPECT_FALSE(torch::equal(s.parameters[4], s.parameters[3]));
        EXPECT_EQ(s.steps_done, kSteps);
      }
    }
    if (last == 0) {
      EXPECT_TRUE(torch::equal(seen[0].state[3], seen[0].state[2]));
    }
  }
}

// Tables by rows: they are used with the buckets, or neither is.
class FiniteRows : public ::testing::TestWithParam<Case> {};

std::vector<Case> by_rows() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"hybrid", "ps-sync"}) {
      all.push_back({strategy, medium, 2, 1});
      all.push_back({strategy, medium, 3, 2});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteRows, ::testing::ValuesIn(by_rows()),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(FiniteRows, RowsAndBucketsAreSkippedTogether) {
  const int last = GetParam().workers - 1;
  for (const std::string tensor : {"words.weight", "a.weight", ""}) {
    for (const auto kind : {optim::Kind::adam, optim::Kind::adagrad}) {
      expect_skipped({.where = GetParam(),
                      .fault = Fault{.rank = last, .tensor = tensor},
                      .kind = kind,
                      .with_table = true});
    }
  }
}

TEST_P(FiniteRows, TheTableIsNamed) {
  const auto seen = train({.where = GetParam(),
                           .fault = Fault{.rank = 1, .tensor = "words.weight"},
                           .policy = OnNonFinite::stop,
                           .with_table = true});
  EXPECT_TRUE(seen[1].nonfinite.starts_with("rank 1: step 3: the gradient of words.weight holds nan; "))
      << seen[1].nonfinite;
  for (const Seen& s : seen) {
    for (const auto& p : s.parameters) EXPECT_TRUE(all_numbers(p));
  }
}

TEST(FiniteRowsAlone, WorkersThatDecideAloneLeaveOutTheirOwnRows) {
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"ps-async", "ps-ssp"}) {
      const Case where{strategy, medium, 1, 2};
      expect_skipped({.where = where, .fault = Fault{.tensor = "words.weight"}, .with_table = true});
    }
  }
}

}  // namespace
}  // namespace tutti::exchange
