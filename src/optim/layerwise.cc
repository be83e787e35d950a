#include "optim/layerwise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/simd.h"
#include "optim/norm.h"
#include "optim/step.h"

namespace tutti::optim {
namespace {

// One layer's parts of the flat spans.
struct View {
  std::size_t count;
  float* parameters;
  const float* gradients;
  float* first;   // slot of state
  float* second;  // where there is one
};

double length_of(const float* values, std::size_t count) {
  return std::sqrt(sum_of_squares({values, count}));
}

TUTTI_SIMD_CLONES void lars_loop(const View& v, float rate, float decay, float momentum) {
  float* __restrict p = v.parameters;
  float* __restrict velocity = v.first;
  const float* __restrict g = v.gradients;
  for (std::size_t i = 0; i < v.count; ++i) {
    velocity[i] = momentum * velocity[i] + rate * (g[i] + decay * p[i]);
    p[i] -= velocity[i];
  }
}

void lars(const Settings& s, double lr, double decay, bool vector, const View& v) {
  double rate = lr;
  if (!vector) {
    const double parameter = length_of(v.parameters, v.count);
    const double gradient = length_of(v.gradients, v.count);
    if (parameter > 0 && gradient > 0) rate *= s.trust * parameter / (gradient + decay * parameter);
  }
  lars_loop(v, static_cast<float>(rate), static_cast<float>(decay), static_cast<float>(momentum_of(s)));
}

struct LambFactors {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float correction1, root_correction2;  // 1 - beta1^t, sqrt(1 - beta2^t)
  float epsilon, decay;
};

[[gnu::always_inline]] inline float direction(const LambFactors& f, float p, float mean, float square) {
  return mean / f.correction1 / (std::sqrt(square) / f.root_correction2 + f.epsilon) + f.decay * p;
}

// Brings the averages forward and says where to go.
TUTTI_SIMD_CLONES void lamb_direction_loop(const View& v, const LambFactors& f, float* __restrict into) {
  const float* __restrict p = v.parameters;
  const float* __restrict g = v.gradients;
  float* __restrict mean = v.first;
  float* __restrict square = v.second;
  for (std::size_t i = 0; i < v.count; ++i) {
    mean[i] = f.beta1 * mean[i] + f.one_minus_beta1 * g[i];
    square[i] = f.beta2 * square[i] + f.one_minus_beta2 * g[i] * g[i];
    into[i] = direction(f, p[i], mean[i], square[i]);
  }
}

TUTTI_SIMD_CLONES void lamb_update_loop(const View& v, const LambFactors& f, float rate) {
  float* __restrict p = v.parameters;
  const float* __restrict mean = v.first;
  const float* __restrict square = v.second;
  for (std::size_t i = 0; i < v.count; ++i) p[i] -= rate * direction(f, p[i], mean[i], square[i]);
}

// The direction is computed twice, so that it needs no memory: first for its length, block by block.
void lamb(const Settings& s, double lr, std::int64_t t, double decay, bool vector, const View& v) {
  const auto f = [](double x) { return static_cast<float>(x); };
  const auto correction = [t](double beta) { return 1 - std::pow(beta, static_cast<double>(t)); };
  const LambFactors factors{.beta1 = f(s.beta1),
                            .one_minus_beta1 = f(1 - s.beta1),
                            .beta2 = f(s.beta2),
                            .one_minus_beta2 = f(1 - s.beta2),
                            .correction1 = f(correction(s.beta1)),
                            .root_correction2 = f(std::sqrt(correction(s.beta2))),
                            .epsilon = f(epsilon_of(s)),
                            .decay = f(decay)};
  std::array<float, 1024> block;
  double squares = 0;
  for (std::size_t at = 0; at < v.count; at += block.size()) {
    const std::size_t n = std::min(block.size(), v.count - at);
    lamb_direction_loop({n, v.parameters + at, v.gradients + at, v.first + at, v.second + at}, factors,
                        block.data());
    squares += sum_of_squares({block.data(), n});
  }
  double rate = lr;
  if (!vector) {
    const double parameter = length_of(v.parameters, v.count);
    if (parameter > 0 && squares > 0) rate *= parameter / std::sqrt(squares);
  }
  lamb_update_loop(v, factors, f(rate));
}

}  // namespace

void step_layers(const Settings& settings, double lr, std::int64_t t, std::span<const Layer> layers,
                 std::span<float> parameters, std::span<const float> gradients,
                 std::span<const std::span<float>> state) {
  TUTTI_CHECK(needs_layers(settings.kind) && t >= 1, "{}, step {}", name_of(settings.kind), t);
  TUTTI_CHECK(gradients.size() == parameters.size() &&
                  state.size() == static_cast<std::size_t>(state_slots(settings)),
              "{} gradients for {} parameters, {} slots", gradients.size(), parameters.size(), state.size());
  for (const auto& slot : state) TUTTI_CHECK(slot.size() == parameters.size());
  for (const Layer& layer : layers) {
    TUTTI_CHECK(layer.first + layer.count <= parameters.size(), "layer at {}", layer.first);
    const View view{layer.count, parameters.data() + layer.first, gradients.data() + layer.first,
                    state[0].data() + layer.first,
                    state.size() > 1 ? state[1].data() + layer.first : nullptr};
    const double decay = layer.vector ? 0 : weight_decay_of(settings);
    if (settings.kind == Kind::lars) {
      lars(settings, lr, decay, layer.vector, view);
    } else {
      lamb(settings, lr, t, decay, layer.vector, view);
    }
  }
}

}  // namespace tutti::optim
