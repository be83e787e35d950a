#include "library/optimizer_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "base/error.h"

namespace tutti::library {
namespace {

TEST(OptimizerState, ANumberThatIsNoneIsFound) {
  const auto weight = torch::ones({2}).requires_grad_();
  torch::optim::Adam adam(std::vector<torch::Tensor>{weight}, AdamOptions(0.1));
  weight.mutable_grad() = torch::ones({2});
  adam.step();
  EXPECT_FALSE(first_nonfinite(serialised(adam)));
  weight.mutable_grad() = torch::full({2}, NAN);
  adam.step();
  EXPECT_NE(first_nonfinite(serialised(adam)).value().find("exp_avg"), std::string::npos);
}

TEST(OptimizerState, BytesComeBackAndDamageIsSaid) {
  for (const std::string bytes : {"", "a", "four", "nine byte"}) {
    const auto packed = pack(bytes);
    const std::span view(static_cast<const std::byte*>(packed.data_ptr()), packed.nbytes());
    EXPECT_EQ(unpack(view, "file"), bytes);
  }
  const auto packed = pack("nine byte");
  EXPECT_THROW(unpack({static_cast<const std::byte*>(packed.data_ptr()), 16}, "file"), DataError);
  EXPECT_THROW(unpack({static_cast<const std::byte*>(packed.data_ptr()), 4}, "file"), DataError);
  const auto weight = torch::ones({2}).requires_grad_();
  torch::optim::Adam adam(std::vector<torch::Tensor>{weight}, AdamOptions(0.1));
  EXPECT_THROW(deserialise(adam, "no archive", "file"), DataError);
}

}  // namespace
}  // namespace tutti::library
