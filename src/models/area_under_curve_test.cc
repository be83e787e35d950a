#include "models/area_under_curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti::models {
namespace {

// The rank statistic itself: every positive against every negative.
double exact(const torch::Tensor& scores, const torch::Tensor& positive) {
  const auto p = scores.masked_select(positive).to(torch::kFloat64).unsqueeze(1);
  const auto n = scores.masked_select(positive.logical_not()).to(torch::kFloat64).unsqueeze(0);
  return (p.gt(n).to(torch::kFloat64) + 0.5 * p.eq(n).to(torch::kFloat64)).mean().item<double>();
}

TEST(AreaUnderCurve, IsTheRankStatisticToAThousandthHoweverScoresLie) {
  torch::manual_seed(3);
  struct Case {
    double centre, spread, apart;
  };
  // As of a fresh network, a trained one, rare clicks, and one that is far too sure.
  for (const auto& c : {Case{0, 0.02, 0.01}, Case{0, 1.5, 1}, Case{-4, 0.5, 0.7}, Case{10, 9, 3}}) {
    const auto positive = torch::rand({3000}).lt(0.3);
    const auto scores = c.centre + c.spread * torch::randn({3000}) + c.apart * positive;
    const double right = exact(scores, positive);
    EXPECT_GT(right, 0.55);
    EXPECT_NEAR(area_under_curve(count_by_score(scores, positive)), right, 1e-3) << c.centre;
  }
}

TEST(AreaUnderCurve, CountsAddUpOverBatches) {
  torch::manual_seed(4);
  const auto scores = torch::randn({400});
  const auto positive = torch::rand({400}).lt(0.5);
  auto sum = count_by_score(scores.slice(0, 0, 150), positive.slice(0, 0, 150));
  const auto rest = count_by_score(scores.slice(0, 150), positive.slice(0, 150));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
  EXPECT_EQ(sum, count_by_score(scores, positive));
}

TEST(AreaUnderCurve, OfOneClassAloneIsNotANumber) {
  EXPECT_TRUE(
      std::isnan(area_under_curve(count_by_score(torch::randn({5}), torch::ones({5}, torch::kBool)))));
}

TEST(AreaUnderCurve, TakesScoresBeyondTheBins) {
  const auto scores = torch::tensor({-1e30F, 1e30F});
  EXPECT_EQ(area_under_curve(count_by_score(scores, torch::tensor({false, true}))), 1);
  EXPECT_EQ(area_under_curve(count_by_score(scores, torch::tensor({true, false}))), 0);
}

}  // namespace
}  // namespace tutti::models
