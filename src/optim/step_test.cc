#include "optim/step.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"

namespace tutti::optim {
namespace {

// Every rule that looks at elements alone; rmsprop with momentum and without.
const std::vector<Settings> kEveryRule{{.kind = Kind::sgd},      {.kind = Kind::momentum},
                                       {.kind = Kind::nesterov}, {.kind = Kind::adam},
                                       {.kind = Kind::adamw},    {.kind = Kind::adagrad},
                                       {.kind = Kind::rmsprop},  {.kind = Kind::rmsprop, .momentum = 0.8}};

Settings with(Settings rule, double weight_decay) {
  rule.lr = 0.02;
  rule.weight_decay = weight_decay;
  return rule;
}

// Parameters and their state, updated by the loops under test.
struct Trained {
  Trained(const Settings& s, std::vector<float> start)
      : settings(s),
        parameters(std::move(start)),
        slots(state_slots(s), std::vector<float>(parameters.size())) {}

  // Updates elements [from, from + count).
  void step_part(std::int64_t t, std::span<const float> gradients, std::size_t from, std::size_t count) {
    std::vector<std::span<float>> state;
    for (auto& slot : slots) state.push_back(std::span(slot).subspan(from, count));
    step(settings, settings.lr, t, std::span(parameters).subspan(from, count), gradients.subspan(from, count),
         state);
  }
  void step_all(std::int64_t t, std::span<const float> gradients) {
    step_part(t, gradients, 0, parameters.size());
  }

  Settings settings;
  std::vector<float> parameters;
  std::vector<std::vector<float>> slots;
};

// One parameter after the textbook, in double.
struct Reference {
  double p, velocity = 0, mean = 0, square = 0;

  void step(const Settings& s, int t, double g) {
    const double decay = weight_decay_of(s);
    if (s.kind != Kind::adamw) g += decay * p;
    if (s.kind == Kind::sgd) p -= s.lr * g;
    if (s.kind == Kind::momentum || s.kind == Kind::nesterov) {
      velocity = momentum_of(s) * velocity + g;
      p -= s.lr * (s.kind == Kind::nesterov ? g + momentum_of(s) * velocity : velocity);
    }
    if (s.kind == Kind::adam || s.kind == Kind::adamw) {
      if (s.kind == Kind::adamw) p -= s.lr * decay * p;
      mean = s.beta1 * mean + (1 - s.beta1) * g;
      square = s.beta2 * square + (1 - s.beta2) * g * g;
      const double mean_hat = mean / (1 - std::pow(s.beta1, t));
      const double square_hat = square / (1 - std::pow(s.beta2, t));
      p -= s.lr * mean_hat / (std::sqrt(square_hat) + epsilon_of(s));
    }
    if (s.kind == Kind::adagrad) {
      square += g * g;
      p -= s.lr * g / (std::sqrt(square) + epsilon_of(s));
    }
    if (s.kind == Kind::rmsprop) {
      square = s.alpha * square + (1 - s.alpha) * g * g;
      velocity = momentum_of(s) * velocity + g / (std::sqrt(square) + epsilon_of(s));
      p -= s.lr * velocity;
    }
  }
};

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> out(n);
  for (auto& x : out) x = static_cast<float>(random.below(2'000'001)) * 1e-6F - 1.0F;
  return out;
}

TEST(Step, FollowsThePlainReference) {
  for (const Settings& rule : kEveryRule) {
    for (const std::size_t n : {0UL, 1UL, 7UL, 8UL, 33UL, 1021UL}) {
      const Settings settings = with(rule, 0.03);
      Trained trained(settings, random_floats(n, 1));
      std::vector<Reference> reference;
      for (const float p : trained.parameters) reference.push_back({.p = p});
      for (int t = 1; t <= 50; ++t) {
        const auto gradients = random_floats(n, 100 + t);
        trained.step_all(t, gradients);
        for (std::size_t i = 0; i < n; ++i) reference[i].step(settings, t, gradients[i]);
      }
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(trained.parameters[i], reference[i].p, 1e-5)
            << name_of(rule.kind) << " " << i << " of " << n;
      }
    }
  }
}

TEST(Step, BitsDoNotDependOnHowTheSpanIsCut) {
  constexpr std::size_t kLength = 257;
  for (const Settings& rule : kEveryRule) {
    const Settings settings = with(rule, 0.03);
    Trained whole(settings, random_floats(kLength, 2));
    Trained cut(settings, random_floats(kLength, 2));
    SplitMix64 random(3);
    for (int t = 1; t <= 50; ++t) {
      const auto gradients = random_floats(kLength, 200 + t);
      whole.step_all(t, gradients);
      for (std::size_t from = 0; from < kLength;) {
        const std::size_t count = std::min<std::size_t>(1 + random.below(40), kLength - from);
        cut.step_part(t, gradients, from, count);
        from += count;
      }
    }
    for (std::size_t i = 0; i < kLength; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(whole.parameters[i]),
                std::bit_cast<std::uint32_t>(cut.parameters[i]))
          << name_of(rule.kind) << " " << i;
    }
    EXPECT_EQ(whole.slots, cut.slots);
  }
}

// Made with torch.optim of PyTorch 1.13: SGD and its kinds with lr 0.1, Adam and AdamW with lr 0.01, weight
// decay 0.01, parameters [1, -2, 0.5] and the gradients below.
struct Golden {
  Kind kind;
  double lr;
  std::array<std::array<float, 3>, 3> after;
};
constexpr std::array<std::array<float, 3>, 3> kGoldenGradients{
    {{0.1F, -0.2F, 3.0F}, {0.5F, 0.25F, -1.0F}, {-0.3F, 0.0F, 0.125F}}};
constexpr std::array<Golden, 5> kGolden{{{Kind::sgd,
                                          0.1,
                                          {{{0.989000022F, -1.97800004F, 0.19949998F},
                                            {0.938010991F, -2.0010221F, 0.299300492F},
                                            {0.967072964F, -1.99902105F, 0.286501199F}}}},
                                         {Kind::momentum,
                                          0.1,
                                          {{{0.989000022F, -1.97800004F, 0.19949998F},
                                            {0.928111017F, -1.98122203F, 0.0288504716F},
                                            {0.902382791F, -1.98214066F, -0.137262926F}}}},
                                         {Kind::nesterov,
                                          0.1,
                                          {{{0.979099989F, -1.95819998F, -0.0709500387F},
                                            {0.873329699F, -1.98415935F, -0.124220222F},
                                            {0.879358292F, -1.9830153F, -0.28574124F}}}},
                                         {Kind::adam,
                                          0.01,
                                          {{{0.99000001F, -1.99000001F, 0.49000001F},
                                            {0.981313467F, -1.99075055F, 0.485979766F},
                                            {0.978553176F, -1.99093056F, 0.48261261F}}}},
                                         {Kind::adamw,
                                          0.01,
                                          {{{0.989899993F, -1.98979998F, 0.489950001F},
                                            {0.981190503F, -1.99122834F, 0.485898823F},
                                            {0.978597105F, -1.99228704F, 0.482506365F}}}}}};

TEST(Step, AgreesWithPyTorch) {
  for (const auto& golden : kGolden) {
    Trained trained({.kind = golden.kind, .lr = golden.lr, .weight_decay = 0.01}, {1.0F, -2.0F, 0.5F});
    for (int t = 1; t <= 3; ++t) {
      trained.step_all(t, kGoldenGradients[t - 1]);
      for (int i = 0; i < 3; ++i) {
        EXPECT_NEAR(trained.parameters[i], golden.after[t - 1][i], 2.5e-7)
            << name_of(golden.kind) << " step " << t << " element " << i;
      }
    }
  }
}

TEST(StepRows, UpdatesTheNamedRowsLikeADenseStepAndNoOther) {
  constexpr std::size_t kWidth = 9;
  for (const Settings& rule : kEveryRule) {
    const Settings settings = with(rule, 0.0);
    Trained dense(settings, random_floats(5 * kWidth, 2));
    Trained sparse(settings, random_floats(5 * kWidth, 2));
    const auto gradients = random_floats(2 * kWidth, 3);
    const std::array<std::uint32_t, 2> rows{3, 1};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::vector<float> all(5 * kWidth);
      std::copy_n(gradients.begin() + i * kWidth, kWidth, all.begin() + rows[i] * kWidth);
      dense.step_part(7, all, rows[i] * kWidth, kWidth);
    }
    std::vector<std::span<float>> state(sparse.slots.begin(), sparse.slots.end());
    step_rows(settings, settings.lr, 7, kWidth, rows, sparse.parameters, gradients, state);
    EXPECT_EQ(sparse.parameters, dense.parameters) << name_of(rule.kind);
    EXPECT_EQ(sparse.slots, dense.slots) << name_of(rule.kind);
  }
}

TEST(Average, AddsInTheOrderGivenAndMayGoIntoTheFirst) {
  std::vector<float> a{1, 2, 3};
  const std::vector<float> b{4, 5, 6};
  const std::vector<float> c{7, 8, 12};
  average(a, std::array<std::span<const float>, 3>{a, b, c});
  EXPECT_EQ(a, (std::vector<float>{4, 5, 7}));
  average(a, std::array<std::span<const float>, 1>{b});
  EXPECT_EQ(a, b);
}

TEST(Step, WithoutDecayAnInfiniteParameterStaysInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  Trained trained({.kind = Kind::momentum}, {infinity});
  trained.step_all(1, std::array{1.0F});
  EXPECT_EQ(trained.parameters[0], infinity);
}

TEST(Step, SlotsHaveTheirPyTorchNames) {
  EXPECT_EQ(state_slots({.kind = Kind::sgd}), 0);
  EXPECT_EQ(slot_name({.kind = Kind::nesterov}, 0), "momentum");
  EXPECT_EQ(slot_name({.kind = Kind::adam}, 0), "exp_avg");
  EXPECT_EQ(slot_name({.kind = Kind::adamw}, 1), "exp_avg_sq");
  EXPECT_EQ(slot_name({.kind = Kind::adagrad}, 0), "sum");
  EXPECT_EQ(slot_name({.kind = Kind::lars}, 0), "momentum");
  EXPECT_EQ(slot_name({.kind = Kind::lamb}, 1), "exp_avg_sq");
  EXPECT_EQ(state_slots({.kind = Kind::rmsprop}), 1);
  EXPECT_EQ(slot_name({.kind = Kind::rmsprop}, 0), "square_avg");
  EXPECT_EQ(slot_name({.kind = Kind::rmsprop, .momentum = 0.5}, 1), "momentum");
}

TEST(AverageShards, AddsInTheOrderOfTheTreeWhateverNodesItIsGiven) {
  constexpr std::size_t kCount = 2500;  // more than one block
  const auto leaf = [](int shard, std::size_t i) {
    return 0.1F * static_cast<float>(shard + 1) + 1e-3F * static_cast<float>((i * 7 + 3) % 101);
  };
  for (const int shards : {1, 5, 8}) {
    const ShardTree tree(shards);
    const std::function<float(ShardNode, std::size_t)> sum_of = [&](ShardNode node, std::size_t i) {
      if (node.size == 1) return leaf(node.first, i);
      const float left = sum_of({node.first, node.size / 2}, i);
      const int middle = node.first + node.size / 2;
      return middle >= shards ? left : left + sum_of({middle, node.size / 2}, i);
    };
    for (int workers = 1; workers <= shards; ++workers) {
      std::vector<ShardTree::Held> nodes;
      std::vector<std::vector<float>> sums;
      for (int w = 0; w < workers; ++w) {
        for (const auto& held : tree.held_of(tree.run_of(w, workers))) {
          nodes.push_back({held.node, static_cast<int>(sums.size())});
          sums.emplace_back();
          for (std::size_t i = 0; i < kCount; ++i) sums.back().push_back(sum_of(held.node, i));
        }
      }
      const std::vector<std::span<const float>> from(sums.begin(), sums.end());
      std::vector<float> mean(kCount);
      average_shards(mean, tree, nodes, from);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(mean[i], sum_of(tree.root(), i) / static_cast<float>(shards)) << shards << ", " << workers;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::optim
