#include "models/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tutti::models {
namespace {

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Models, UnknownNameListsTheKnownOnes) {
  EXPECT_NE(refusal([] { find_model("resnet9000"); }).find("mnist-cnn"), std::string::npos);
}

TEST(Models, NamesAreUnique) {
  std::vector<std::string_view> names;
  for (const auto& m : all_models()) names.push_back(m.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Models, OptionsThatAreNotGivenAreTheModelsOwn) {
  const auto& info = find_model("mnist-cnn");
  EXPECT_EQ(info.complete({}), info.own);
  const auto fields = info.fields({.classes = 7, .channels = 3});
  EXPECT_EQ(fields[0].shape, (std::vector<std::int64_t>{3, 28, 28}));
  EXPECT_EQ(fields[1].below, 7);
}

TEST(Models, OptionsThatDoNotFitAreRefusedWithTheReason) {
  EXPECT_EQ(refusal([] { make_model("wide-deep", {.classes = 3}); }),
            "model wide-deep has no option 'classes'; it has: none");
  EXPECT_EQ(refusal([] { make_model("mnist-cnn", {.vocabulary = 3}); }),
            "model mnist-cnn has no option 'vocabulary'; it has: classes, image size, channels");
  EXPECT_EQ(refusal([] { make_model("mnist-cnn", {.image_size = 21}); }),
            "model mnist-cnn: image size 21 is too small; the least is 22");
  EXPECT_EQ(refusal([] { find_model("mnist-cnn").fields({.classes = -1}); }),
            "model mnist-cnn: classes -1 is below 1");
}

// What is exchanged and saved beside the parameters.
TEST(Models, BuffersAreRunningStatisticsAlone) {
  const std::map<std::string_view, std::size_t> normalised = {
      // batch norms, of which each has three
      {"mnist-cnn", 0},          {"alexnet-cifar", 0}, {"vgg16-cifar", 13}, {"resnet50-cifar", 53},
      {"mobilenetv2-cifar", 52}, {"rnn-mnist", 0},     {"deepfam", 6},      {"sdss-dnn", 0}};
  for (const auto& [name, batch_norms] : normalised) {
    EXPECT_EQ(make_model(name)->named_buffers().size(), 3 * batch_norms) << name;
    for (const auto& buffer : make_model(name)->named_buffers()) {
      const auto kind = buffer.key().substr(buffer.key().rfind('.') + 1);
      const bool statistics = kind == "running_mean" || kind == "running_var";
      EXPECT_TRUE(statistics || kind == "num_batches_tracked") << name << ' ' << buffer.key();
      EXPECT_EQ(buffer.value().scalar_type(), statistics ? torch::kFloat32 : torch::kInt64) << buffer.key();
    }
  }
}

// Scores that are the samples themselves.
class Echo final : public Classifier {
 public:
  torch::Tensor forward(torch::Tensor samples) override { return samples; }
};

TEST(Classifier, CountsTheBestAndTheBestFive) {
  const auto scores = torch::tensor(
      {{6.F, 5.F, 4.F, 3.F, 2.F, 1.F}, {6.F, 5.F, 4.F, 3.F, 2.F, 1.F}, {6.F, 5.F, 4.F, 3.F, 2.F, 1.F}});
  const auto score = Echo().score({scores, torch::tensor({0, 4, 5}, torch::kInt64)});
  EXPECT_EQ(score.counts, (std::vector<double>{1, 2}));
  EXPECT_EQ(score.samples, 3);
  EXPECT_NEAR(score.loss, torch::logsumexp(scores, 1).sum().item<double>() - 6 - 2 - 1, 1e-5);
}

TEST(Classifier, SmoothedLabelsChangeTheLossAndNotTheScore) {
  Echo echo;
  const auto scores = torch::tensor({{2.0F, 0.0F, -1.0F}, {0.5F, 0.5F, 3.0F}});
  const auto classes = torch::tensor({0, 1}, torch::kInt64);
  const double before = echo.score({scores, classes}).loss;
  const double plain = echo.loss({scores, classes}).item<double>();
  echo.smooth_labels(0.3);
  const auto log = scores.log_softmax(1);
  const double uniform = -log.mean(1).mean().item<double>();
  EXPECT_NEAR(echo.loss({scores, classes}).item<double>(), 0.7 * plain + 0.3 * uniform, 1e-5);
  EXPECT_EQ(echo.score({scores, classes}).loss, before);
}

TEST(Classifier, SaysLossAccuracyAndTop5) {
  const Score sums = {.loss = 10, .samples = 20, .counts = {15, 18}};
  std::map<std::string_view, double> figures;
  for (const Figure& f : classification().figures) figures[f.name] = f.of(sums);
  EXPECT_EQ(figures, (std::map<std::string_view, double>{{"loss", 0.5}, {"accuracy", 0.75}, {"top5", 0.9}}));
}

// Everyone has the figures that summary.json promises, and those are made from as many counts as it says.
TEST(Models, EveryModelMeasuresLossAndAccuracy) {
  for (const ModelInfo& m : all_models()) {
    std::vector<std::string_view> names;
    for (const Figure& f : m.measures.figures) names.push_back(f.name);
    EXPECT_EQ(std::ranges::count(names, "loss"), 1) << m.name;
    EXPECT_EQ(std::ranges::count(names, "accuracy"), 1) << m.name;
  }
}

TEST(Classifier, WithFewerThanFiveClassesEveryOneIsAmongTheBestFive) {
  EXPECT_EQ(Echo().score({torch::randn({4, 3}), torch::tensor({0, 1, 2, 2}, torch::kInt64)}).counts[1], 4);
}

}  // namespace
}  // namespace tutti::models
