#include "models/plugin.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "models/scored_fixture.h"

namespace tutti::models {
namespace {

std::string error_of(const std::filesystem::path& file) {
  try {
    plugin_model(file, ScoreLoss::cross_entropy);
  } catch (const DataError& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with(file.string() + ": ")) << text;
    return text.substr(std::min(text.size(), file.string().size() + 2));
  }
  return "";
}

TEST(Plugin, ComputesAndLearnsByTheTensorsThatItsModuleShows) {
  const auto info = find_model(std::string("plugin:") + TUTTI_TEST_PLUGIN);
  EXPECT_EQ(info.parameters, 4 * 3 + 4 + 2 * 4 + 2 * 4);
  torch::manual_seed(7);
  const auto model = info.make({});
  std::vector<std::string> names;
  for (const auto& p : model->named_parameters()) names.push_back(p.key());
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{"dense.bias", "dense.weight", "norm.bias", "norm.weight", "out"}));
  EXPECT_LT(loss_left_after_training(*model), 0.5);
  EXPECT_EQ(model->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 52);
  model->eval();
  EXPECT_EQ(model->score(kBatch).samples, 8);
  EXPECT_EQ(model->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 52);
}

TEST(Plugin, WhatCannotBeUsedIsNamedWithTheReason) {
  const ScratchFolder scratch;
  EXPECT_EQ(error_of(scratch.path() / "none.so"), "there is no such file");
  std::ofstream(scratch.path() / "text.so") << "no library";
  EXPECT_TRUE(
      error_of(scratch.path() / "text.so").starts_with("this cannot be loaded as a shared library: "));
  EXPECT_EQ(error_of(TUTTI_TEST_PLUGIN0),
            "this library has no network; TUTTI_NETWORK(Type) of tutti/network.h adds it");
  EXPECT_EQ(error_of(TUTTI_TEST_PLUGIN1),
            "this was built for version 0 of tutti's plugins, and this tutti has 1; build it anew");
  EXPECT_TRUE(error_of(TUTTI_TEST_PLUGIN2).starts_with("this was built with libtorch 9.9.9, and this "));
  ::setenv("TUTTI_TEST_NO_NETWORK", "", 1);
  EXPECT_EQ(error_of(TUTTI_TEST_PLUGIN), "the network cannot be made: no weights today");
  ::unsetenv("TUTTI_TEST_NO_NETWORK");
}

}  // namespace
}  // namespace tutti::models
