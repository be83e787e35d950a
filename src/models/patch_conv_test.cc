#include "models/patch_conv.h"

#include <gtest/gtest.h>

namespace tutti::models {
namespace {

constexpr auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

struct Result {
  torch::Tensor out;
  std::vector<torch::Tensor> gradients;
};

template <typename Convolve>
Result run(const Convolve& convolve, const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& b) {
  const auto out = convolve(x, w, b);
  torch::manual_seed(5);
  return {out, torch::autograd::grad({(out * torch::randn_like(out)).sum()}, {x, w, b})};
}

torch::Tensor reference(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& b) {
  return torch::conv2d(x, w, b);
}

TEST(PatchConv, EqualsTheLibrarysConvolutionInValueAndGradients) {
  torch::manual_seed(1);
  for (const std::int64_t kernel : {1, 2, 3}) {
    for (const auto weight_format : {torch::MemoryFormat::Contiguous, kChannelsLast}) {
      const auto x = torch::randn({4, 6, 7, 5}).contiguous(kChannelsLast).requires_grad_();
      const auto w = torch::randn({8, 6, kernel, kernel}).contiguous(weight_format).requires_grad_();
      const auto b = torch::randn({8}).requires_grad_();
      const auto ours = run(patch_conv2d, x, w, b);
      const auto theirs = run(reference, x, w, b);
      EXPECT_TRUE(torch::allclose(ours.out, theirs.out, 1e-4, 1e-4)) << kernel;
      EXPECT_TRUE(ours.out.is_contiguous(kChannelsLast));
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(torch::allclose(ours.gradients[i], theirs.gradients[i], 1e-4, 1e-3))
            << kernel << " " << i;
      }
    }
  }
}

TEST(PatchConv, InputOfAnotherOrderGoesToTheLibrary) {
  const auto x = torch::randn({2, 3, 5, 5});
  const auto w = torch::randn({4, 3, 3, 3});
  const auto b = torch::randn({4});
  EXPECT_TRUE(torch::equal(patch_conv2d(x, w, b), torch::conv2d(x, w, b)));
}

}  // namespace
}  // namespace tutti::models
