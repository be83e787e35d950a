#include "optim/layerwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "optim/norm.h"
#include "optim/step.h"

namespace tutti::optim {
namespace {

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> out(n);
  for (auto& x : out) x = static_cast<float>(random.below(2'000'001)) * 1e-6F - 1.0F;
  return out;
}

struct Flat {
  Flat(const Settings& s, std::vector<float> start)
      : settings(s),
        parameters(std::move(start)),
        slots(static_cast<std::size_t>(state_slots(s)), std::vector<float>(parameters.size())) {}
  void step(std::int64_t t, std::span<const Layer> layers, std::span<const float> gradients) {
    const std::vector<std::span<float>> state(slots.begin(), slots.end());
    step_layers(settings, settings.lr, t, layers, parameters, gradients, state);
  }

  Settings settings;
  std::vector<float> parameters;
  std::vector<std::vector<float>> slots;
};

// One layer after the papers, in double.
struct Reference {
  std::vector<double> p, first, second;
  explicit Reference(std::span<const float> start)
      : p(start.begin(), start.end()), first(p.size()), second(p.size()) {}

  static double length(const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x * x;
    return std::sqrt(sum);
  }

  void lars(const Settings& s, bool vector, const std::vector<double>& g) {
    const double decay = vector ? 0 : weight_decay_of(s);
    double rate = 1;
    if (!vector && length(p) > 0 && length(g) > 0)
      rate = s.trust * length(p) / (length(g) + decay * length(p));
    for (std::size_t i = 0; i < p.size(); ++i) {
      first[i] = momentum_of(s) * first[i] + s.lr * rate * (g[i] + decay * p[i]);
      p[i] -= first[i];
    }
  }

  void lamb(const Settings& s, int t, bool vector, const std::vector<double>& g) {
    const double decay = vector ? 0 : weight_decay_of(s);
    std::vector<double> u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      first[i] = s.beta1 * first[i] + (1 - s.beta1) * g[i];
      second[i] = s.beta2 * second[i] + (1 - s.beta2) * g[i] * g[i];
      const double mean = first[i] / (1 - std::pow(s.beta1, t));
      const double square = second[i] / (1 - std::pow(s.beta2, t));
      u[i] = mean / (std::sqrt(square) + epsilon_of(s)) + decay * p[i];
    }
    const double rate = !vector && length(p) > 0 && length(u) > 0 ? length(p) / length(u) : 1;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= s.lr * rate * u[i];
  }

  void step(const Settings& s, int t, bool vector, std::span<const float> gradients) {
    const std::vector<double> g(gradients.begin(), gradients.end());
    s.kind == Kind::lars ? lars(s, vector, g) : lamb(s, t, vector, g);
  }
};

const std::vector<Layer> kLayers{{0, 5}, {16, 2500}, {2528, 33, true}};
constexpr std::size_t kCount = 2576;  // with gaps between layers, as buckets have

TEST(Layerwise, FollowsThePlainReferenceLayerByLayer) {
  for (const Kind kind : {Kind::lars, Kind::lamb}) {
    const Settings settings{.kind = kind, .lr = kind == Kind::lars ? 1.0 : 0.01, .weight_decay = 0.03};
    Flat flat(settings, random_floats(kCount, 1));
    std::vector<Reference> reference;
    for (const Layer& l : kLayers)
      reference.emplace_back(std::span(flat.parameters).subspan(l.first, l.count));
    for (int t = 1; t <= 30; ++t) {
      const auto gradients = random_floats(kCount, 100 + static_cast<std::uint64_t>(t));
      flat.step(t, kLayers, gradients);
      for (std::size_t l = 0; l < kLayers.size(); ++l) {
        reference[l].step(settings, t, kLayers[l].vector,
                          std::span(gradients).subspan(kLayers[l].first, kLayers[l].count));
      }
    }
    for (std::size_t l = 0; l < kLayers.size(); ++l) {
      for (std::size_t i = 0; i < kLayers[l].count; ++i) {
        ASSERT_NEAR(flat.parameters[kLayers[l].first + i], reference[l].p[i], 1e-5)
            << name_of(kind) << " layer " << l << " element " << i;
      }
    }
  }
}

TEST(Layerwise, WhatLiesBetweenLayersIsLeftAlone) {
  for (const Kind kind : {Kind::lars, Kind::lamb}) {
    Flat flat({.kind = kind}, std::vector<float>(kCount));
    flat.step(1, kLayers, random_floats(kCount, 7));
    EXPECT_NE(flat.parameters[16], 0.0F);
    for (const std::size_t gap : {5, 15, 2516, 2575}) EXPECT_EQ(flat.parameters[gap], 0.0F) << gap;
  }
}

TEST(Layerwise, LayerOrGradientWithoutLengthGoesAtTheRateOfOne) {
  const std::vector<Layer> layers{{0, 2}};
  Flat lars({.kind = Kind::lars, .lr = 0.5}, {0, 0});
  lars.step(1, layers, std::vector<float>{3, 4});
  EXPECT_EQ(lars.parameters, (std::vector<float>{-1.5F, -2.0F}));
  Flat still({.kind = Kind::lamb, .lr = 0.5, .weight_decay = 0.0}, {1, 2});
  still.step(1, layers, std::vector<float>{0, 0});
  EXPECT_EQ(still.parameters, (std::vector<float>{1, 2}));
}

TEST(Norm, SumsSquaresOfEveryLengthInDouble) {
  for (const std::size_t n : {0UL, 1UL, 15UL, 16UL, 17UL, 1000UL}) {
    const auto values = random_floats(n, 3);
    double sum = 0;
    for (const float x : values) sum += static_cast<double>(x) * x;
    EXPECT_NEAR(sum_of_squares(values), sum, 1e-12 * (1 + sum)) << n;
  }
  const float large = std::numeric_limits<float>::max();
  EXPECT_DOUBLE_EQ(sum_of_squares(std::vector<float>{large}), static_cast<double>(large) * large);
}

TEST(Norm, ScalesEveryElement) {
  std::vector<float> values(37, 2.0F);
  scale(values, 0.25);
  EXPECT_EQ(values, std::vector<float>(37, 0.5F));
}

}  // namespace
}  // namespace tutti::optim
