#include "checkpoint/diff.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/scratch_folder.h"
#include "checkpoint/small_checkpoint.h"

namespace tutti::checkpoint {
namespace {

template <typename T>
ElementDifferences compare_one(DType dtype, T a, T b) {
  return compare(dtype, std::as_bytes(std::span(&a, 1)), std::as_bytes(std::span(&b, 1)));
}

template <typename T>
std::uint64_t ulps(DType dtype, T a, T b) {
  return compare_one(dtype, a, b).max_ulps;
}

TEST(Elements, NeighboursAreOneUlpApart) {
  EXPECT_EQ(ulps(DType::f32, 1.0F, std::nextafterf(1.0F, 2.0F)), 1);
  EXPECT_EQ(ulps(DType::f32, std::nextafterf(1.0F, 0.0F), std::nextafterf(1.0F, 2.0F)), 2);
  EXPECT_EQ(ulps(DType::f64, -1.0, std::nextafter(-1.0, 0.0)), 1);
  EXPECT_EQ(ulps<std::uint16_t>(DType::bf16, 0x3f80, 0x3f81), 1);
  EXPECT_EQ(ulps<std::uint16_t>(DType::f16, 0x3c00, 0x3bff), 1);
  EXPECT_EQ(ulps(DType::f32, std::numeric_limits<float>::max(), HUGE_VALF), 1);
}

TEST(Elements, UlpsCountThroughZero) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulps(DType::f32, -least, least), 2);
  EXPECT_EQ(ulps(DType::f32, -0.0F, least), 1);
  EXPECT_EQ(ulps(DType::f32, -1.0F, 1.0F), 2 * 0x3f800000ULL);
  EXPECT_EQ(ulps(DType::f64, -HUGE_VAL, HUGE_VAL), 2 * 0x7ff0000000000000ULL);
  EXPECT_EQ(ulps<std::uint16_t>(DType::f16, 0x8001, 0x0001), 2);
}

TEST(Elements, ZerosOfBothSignsDifferByZeroUlps) {
  const auto c = compare_one(DType::f32, 0.0F, -0.0F);
  EXPECT_EQ(c.differing, 1);
  EXPECT_EQ(c.zero_signs, 1);
  EXPECT_EQ(c.max_ulps, 0);
  EXPECT_EQ(c.max_abs, 0);
}

TEST(Elements, NansAreEqualOnlyByTheirBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compare_one(DType::f32, nan, nan).differing, 0);
  for (const auto& c : {compare_one(DType::f32, nan, 1.0F), compare_one(DType::f32, nan, -nan)}) {
    EXPECT_EQ(c.differing, 1);
    EXPECT_EQ(c.nan, 1);
    EXPECT_EQ(c.max_ulps, 0);
  }
  EXPECT_EQ(compare_one<std::uint16_t>(DType::f16, 0x7e00, 0).nan, 1);
  EXPECT_EQ(compare_one<std::uint16_t>(DType::bf16, 0x7fc0, 0).nan, 1);
}

TEST(Elements, IntegersDifferByTheirDifference) {
  EXPECT_EQ(ulps<std::int32_t>(DType::i32, -3, 4), 7);
  EXPECT_EQ(ulps<std::int64_t>(DType::i64, std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::uint64_t>::max());
}

TEST(Elements, ReadsHalfPrecision) {
  const std::array<std::uint16_t, 4> f16{0x3c00, 0xc000, 0x0001, 0x7bff};  // 1, -2, 2^-24, 65504
  const auto s = statistics(DType::f16, std::as_bytes(std::span(f16)));
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 65504);
  EXPECT_DOUBLE_EQ(s.mean, (65503 + std::ldexp(1, -24)) / 4);
  EXPECT_EQ(compare_one<std::uint16_t>(DType::f16, 0x7c00, 0xfc00).max_abs, HUGE_VAL);
  EXPECT_EQ(compare_one<std::uint16_t>(DType::bf16, 0x3f80, 0x4000).max_abs, 1);
}

TEST(Elements, StatisticsLeaveNanOut) {
  const std::array<float, 4> x{3, std::numeric_limits<float>::quiet_NaN(), -4, 0};
  const auto s = statistics(DType::f32, std::as_bytes(std::span(x)));
  EXPECT_EQ(s.nan, 1);
  EXPECT_EQ(s.l2, 5);
  EXPECT_EQ(s.min, -4);
  EXPECT_DOUBLE_EQ(s.mean, -1.0 / 3);
  EXPECT_EQ(statistics(DType::f32, {}).l2, 0);
}

TEST(Elements, BytesNeedNotBeAligned) {
  std::array<std::byte, 9> a{}, b{};
  b[1] = std::byte{1};
  EXPECT_EQ(compare(DType::f64, std::span(a).subspan(1), std::span(b).subspan(1)).max_ulps, 1);
}

TEST(Diff, CheckpointWithItselfIsIdentical) {
  const ScratchFolder run;
  const auto c = load(SmallCheckpoint().save_to(run.path(), 1));
  EXPECT_TRUE(diff(c, c).identical());
  EXPECT_EQ(render(diff(c, c)), "identical: 3 tensors, 16 elements\n");
}

TEST(Diff, TellsHowManyElementsHowFarAndWhereFirst) {
  const ScratchFolder run;
  SmallCheckpoint small;
  const auto a = load(small.save_to(run.path(), 1));
  small.weight[3] = std::nextafterf(-4, 0);
  small.weight[4] = 0.75F;
  small.weight[5] = 0.0F;
  small.momentum[2] = std::numeric_limits<float>::quiet_NaN();
  const auto b = load(small.save_to(run.path(), 2));
  const auto d = diff(a, b);
  ASSERT_EQ(d.tensors.size(), 3);
  EXPECT_EQ(d.tensors[0].difference, Difference::none);
  EXPECT_EQ(d.tensors[1].name, "fc.weight");
  EXPECT_EQ(d.tensors[1].values.differing, 3);
  EXPECT_EQ(d.tensors[1].values.first, 3);
  EXPECT_EQ(d.tensors[1].values.max_ulps, 1U << 22);
  EXPECT_EQ(d.tensors[1].values.max_abs, 0.25);
  EXPECT_EQ(d.tensors[2].values.nan, 1);
  EXPECT_EQ(render(d),
            "tensor                         differs          max ULPs  max |a-b|  first at\n"
            "fc.weight                      3 of 6 elements   4194304       0.25  [1, 1]\n"
            "optimizer: fc.weight.momentum  1 of 8 elements  NaN in 1        NaN  [2]\n"
            "2 of 3 tensors differ\n"
            "1 elements are +0 against -0: other bits, 0 ULPs\n");
}

TEST(Diff, TellsTensorsThatAreMissingOrOfAnotherKind) {
  const std::array<float, 4> x{};
  const auto bytes = std::as_bytes(std::span(x));
  const std::array a{TensorView{"only a", DType::f32, {1}, bytes.first(4)},
                     TensorView{"shape", DType::f32, {2, 2}, bytes},
                     TensorView{"type", DType::f32, {4}, bytes}};
  const std::array b{TensorView{"type", DType::i32, {4}, bytes}, TensorView{"shape", DType::f32, {4}, bytes},
                     TensorView{"x\nonly b", DType::f64, {}, bytes.first(8)}};
  const auto d = diff(a, b);
  ASSERT_EQ(d.tensors.size(), 4);
  EXPECT_FALSE(d.identical());
  EXPECT_EQ(d.tensors[0].difference, Difference::only_in_first);
  EXPECT_EQ(d.tensors[1].difference, Difference::shape);
  EXPECT_EQ(d.tensors[2].difference, Difference::dtype);
  EXPECT_EQ(d.tensors[3].difference, Difference::only_in_second);
  const auto text = render(d);
  for (const auto* part : {"only in the first: float32 [1]", "shape: [2, 2] against [4]",
                           "type: float32 against int32", "\"x\\nonly b\"  only in the second: float64 []"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Diff, BareFileIsComparedWithTheModelOnly) {
  const ScratchFolder run;
  const auto folder = SmallCheckpoint().save_to(run.path(), 1);
  const auto d = diff(open_any(folder), open_any(folder / "model.safetensors"));
  EXPECT_TRUE(d.identical());
  EXPECT_EQ(d.tensors.size(), 2);
}

TEST(Diff, NamesWhatTheTwoWereComputedWithAsTheLikelyReason) {
  const ScratchFolder run;
  SmallCheckpoint small;
  const auto save_with = [&](std::int64_t step, const char* processor, const char* libtorch = "2.6.0") {
    return save(run.path(), step, small.model(), small.optimizer(),
                {{"arithmetic", {{"processor", processor}, {"libtorch", libtorch}, {"threads", 1}}}});
  };
  const auto first = save_with(1, "A");
  small.bias[0] = 7.5F;
  const auto elsewhere = diff(open_any(first), open_any(save_with(2, "B")));
  ASSERT_EQ(elsewhere.arithmetic.size(), 1U);
  EXPECT_NE(render(elsewhere).find("likely reason: processor \"A\" against \"B\""), std::string::npos);
  EXPECT_NE(render(diff(open_any(first), open_any(save_with(4, "A", "2.7.1"))))
                .find("likely reason: libtorch \"2.6.0\" against \"2.7.1\""),
            std::string::npos);
  const auto here = diff(open_any(first), open_any(save_with(3, "A")));
  EXPECT_FALSE(here.identical());
  EXPECT_EQ(render(here).find("likely reason"), std::string::npos);
}

TEST(Diff, NamesKernelsThatWereChosenOtherwiseAsTheLikelyReason) {
  const ScratchFolder run;
  SmallCheckpoint small;
  const auto save_with = [&](std::int64_t step, const nlohmann::json& arithmetic) {
    small.bias[0] += 1;
    return open_any(save(run.path(), step, small.model(), small.optimizer(), {{"arithmetic", arithmetic}}));
  };
  const nlohmann::json none = nlohmann::json::array();
  const auto first = save_with(1, {{"openblas", "OpenBLAS Haswell"}, {"kernels", none}});
  const auto told = save_with(2, {{"openblas", "OpenBLAS Nehalem"},
                                  {"kernels", nlohmann::json::array({"OPENBLAS_CORETYPE=Nehalem"})}});
  const auto text = render(diff(first, told));
  for (const auto* reason : {"likely reason: openblas \"OpenBLAS Haswell\" against \"OpenBLAS Nehalem\"\n",
                             "likely reason: kernels [] against [\"OPENBLAS_CORETYPE=Nehalem\"]\n"}) {
    EXPECT_NE(text.find(reason), std::string::npos) << text;
  }
  // One of before these were written down.
  const auto earlier = save_with(3, {{"libtorch", "1.13.1"}});
  EXPECT_EQ(render(diff(first, earlier)).find("likely reason"), std::string::npos);
}

}  // namespace
}  // namespace tutti::checkpoint
