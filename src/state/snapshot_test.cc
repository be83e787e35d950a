#include "state/snapshot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tutti::state {
namespace {

std::vector<float> numbers(const checkpoint::TensorView& view) {
  const auto* first = reinterpret_cast<const float*>(view.bytes.data());
  return {first, first + view.bytes.size() / sizeof(float)};
}

TEST(Snapshot, HoldsOriginalsWhereTheyLieInRowMajorOrder) {
  const auto plain = torch::rand({4, 3});
  const auto columns_first = torch::rand({3, 4}).t();
  Snapshot s;
  s.add("a.", {{"plain", plain}, {"columns", columns_first}}, Hold::originals);
  ASSERT_EQ(s.views().size(), 2U);
  EXPECT_EQ(s.views()[0].name, "a.plain");
  EXPECT_EQ(s.views()[0].bytes.data(), static_cast<const std::byte*>(plain.data_ptr()));
  EXPECT_FLOAT_EQ(numbers(s.views()[1])[1], columns_first[0][1].item<float>());
}

TEST(Snapshot, CopiesStayWhenTheRunGoesOn) {
  const auto tensor = torch::ones({4, 3});
  Snapshot s;
  s.add("", {{"tensor", tensor}}, Hold::copies);
  tensor.zero_();
  EXPECT_EQ(numbers(s.views()[0]), std::vector<float>(12, 1.0F));
}

TEST(Snapshot, TheFirstNumberThatIsNoneIsNamed) {
  const auto weight = torch::ones({4, 3});
  const auto count = torch::full({1}, 0x7f800000, torch::kInt64);  // no float, whatever its bits
  Snapshot s;
  s.add("exp_avg.", {{"count", count}, {"weight", weight}}, Hold::originals);
  EXPECT_FALSE(first_nonfinite(s));
  weight[1][2] = -std::numeric_limits<float>::infinity();
  weight[3][2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_nonfinite(s), "exp_avg.weight holds -inf (first at element 5)");
  EXPECT_EQ(first_nan(s), "exp_avg.weight holds nan (first at element 11)");
  weight[3][2] = 0;
  EXPECT_FALSE(first_nan(s));
}

TEST(Snapshot, NumbersOfOtherTypesAreLookedAtToo) {
  Snapshot s;
  s.add("", {{"half", torch::tensor({1.0F, NAN}, torch::kFloat16)}}, Hold::originals);
  EXPECT_EQ(first_nonfinite(s), "half holds nan (first at element 1)");
}

}  // namespace
}  // namespace tutti::state
