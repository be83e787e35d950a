#include "models/gan_mnist.h"

#include <gtest/gtest.h>

#include "models/flops_fixture.h"

namespace tutti::models {
namespace {

Batch random_digits(std::int64_t samples) {
  return {torch::rand({samples, 1, 28, 28}), torch::zeros({samples}, torch::kInt64)};
}

TEST(GanMnist, HasTheParametersOfTheStudy) {
  EXPECT_EQ(count_parameters(*make_model("gan-mnist")),
            (100 * 256 + 256 + 256 * 784 + 784) + (784 * 256 + 256 + 256 + 1));
}

TEST(GanMnist, StepHasThePhasesAndTheFlopsThatItSays) {
  const auto model = make_model("gan-mnist");
  EXPECT_EQ(model->phases().size(), gan_mnist().phases);
  const auto batch = random_digits(3);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(FlopCount::of([&] {
              for (const Phase& p : model->phases()) p.loss(batch);
            }),
            3 * gan_mnist().flops_per_sample);
}

TEST(GanMnist, PhasesAreThoseOfThePaper) {
  torch::manual_seed(1);
  const auto model = make_model("gan-mnist");
  const auto batch = random_digits(5);
  auto w = model->named_parameters();
  const auto layer = [&](const torch::Tensor& x, const std::string& name) {
    return torch::addmm(w[name + ".bias"], x, w[name + ".weight"].t());
  };
  const auto chance = [&](const torch::Tensor& images) {
    return layer(layer(images, "discriminator.hidden").relu(), "discriminator.last").sigmoid();
  };
  const auto made = [&] {
    const auto noise = torch::rand({5, 100}) * 2 - 1;
    return layer(layer(noise, "generator.hidden").relu(), "generator.last").sigmoid();
  };
  const auto phases = model->phases();
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].trains, "discriminator.");
  EXPECT_EQ(phases[1].trains, "generator.");
  torch::manual_seed(2);
  const auto first = phases[0].loss(batch).item<double>();
  torch::manual_seed(2);
  EXPECT_NEAR(first, -(chance(batch[0].flatten(1)).log() + (1 - chance(made())).log()).mean().item<double>(),
              1e-5);
  torch::manual_seed(3);
  const auto second = phases[1].loss(batch).item<double>();
  torch::manual_seed(3);
  EXPECT_NEAR(second, -chance(made()).log().mean().item<double>(), 1e-5);
}

TEST(GanMnist, ScoresAndDrawsOfTheSameNoiseEachTime) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model("gan-mnist");
  const auto batch = random_digits(6);
  const auto score = model->score(batch);
  torch::rand({1});  // what others draw does not matter
  EXPECT_EQ(model->score(batch).counts, score.counts);
  EXPECT_NEAR(score.loss, score.counts[1] + score.counts[2], 1e-9);
  EXPECT_LE(score.counts[0], 6);
  auto& generative = dynamic_cast<Generative&>(*model);
  const auto images = generative.draw(9);
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{9, 28, 28}));
  EXPECT_TRUE(torch::equal(images, generative.draw(9)));
  EXPECT_TRUE(images.ge(0).logical_and(images.le(1)).all().item<bool>());
}

}  // namespace
}  // namespace tutti::models
