#include "state/buffers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "collectives/native.h"
#include "net/inproc.h"
#include "state/snapshot.h"

namespace tutti::state {
namespace {

// Buffers as users have them.
struct Various : torch::nn::Module {
  explicit Various(int value) {
    register_buffer("mean", torch::full({3}, value, torch::kFloat32));
    register_buffer("turned", torch::full({2, 3}, value, torch::kFloat64).t());
    register_buffer("half", torch::full({2}, value, torch::kFloat16));
    register_buffer("seen", torch::full({3}, value > 1, torch::kBool));
    register_buffer("small", torch::full({2}, value, torch::kUInt8));
    register_buffer("count", torch::full({}, value, torch::kInt64));
    register_buffer("none", torch::Tensor());
  }
};

void expect_value(const Buffers& buffers, double measured, double counted) {
  for (const auto& [name, view] : buffers.views()) {
    const bool is_count = !view.is_floating_point();
    const double expected = name == "seen" ? (counted > 1 ? 1 : 0) : is_count ? counted : measured;
    EXPECT_TRUE((view == expected).all().item<bool>()) << name << ' ' << view;
  }
}

TEST(Buffers, OfEveryTypeAndLayoutBecomeMeansAndGreatestOrRankZeros) {
  net::run_as_threads(net::Medium::memory, 2, net::unpinned_options(2, std::chrono::seconds(20)),
                      [](net::Transport& transport) {
                        collectives::NativeEngine all(transport);
                        const Various module(1 + 2 * to_int(all.rank()));
                        const Buffers buffers(module);
                        EXPECT_EQ(buffers.views().size(), 6U);
                        buffers.average(all);
                        expect_value(buffers, 2, 3);
                        const Various other(1 + 2 * to_int(all.rank()));
                        Buffers(other).broadcast(all);
                        expect_value(Buffers(other), 1, 1);
                      });
}

TEST(Buffers, OfEveryTypeAndLayoutComeBackFromAFile) {
  const ScratchFolder folder;
  const Various saved(7);
  Snapshot snapshot;
  snapshot.add("", Buffers(saved).views(), Hold::originals);
  checkpoint::write_safetensors(folder.path() / "file", snapshot.views());
  const Various other(0);
  restore(checkpoint::SafetensorsFile(folder.path() / "file"), Buffers(other).views());
  expect_value(Buffers(other), 7, 7);
}

std::string why_refused(const torch::Tensor& buffer) {
  torch::nn::Module module;
  module.register_buffer("odd", buffer);
  try {
    const Buffers buffers(module);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

TEST(Buffers, ThatCannotBeKeptAreNamed) {
  EXPECT_EQ(why_refused(torch::zeros({2}, torch::kComplexFloat)),
            "buffer odd is of ComplexFloat, which cannot be kept");
  EXPECT_NE(
      why_refused(torch::zeros({1, 2}).expand({3, 2})).find("buffer odd has elements that share memory"),
      std::string::npos);
  EXPECT_NE(why_refused(torch::zeros({2}).to_sparse()).find("buffer odd is on cpu"), std::string::npos);
  EXPECT_EQ(why_refused(torch::zeros({1, 2}).expand({1, 2})), "");
}

}  // namespace
}  // namespace tutti::state
