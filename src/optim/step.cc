// Every scalar is brought to a float once a call; the loops then do the same float operations in the same
// order for each element. The build turns off fused multiply-add here, so that a clone for a newer processor
// rounds alike.
#include "optim/step.h"

#include <cmath>

#include "base/error.h"
#include "base/simd.h"

namespace tutti::optim {
namespace {

// Decay 0 leaves the gradient alone rather than adding 0 * p, which is NaN for an infinite p. The compiler
// moves the choice out of the loops.
inline float decayed(float gradient, float parameter, float decay) {
  return decay != 0.0F ? gradient + decay * parameter : gradient;
}

struct AdamFactors {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float root_correction2;  // sqrt(1 - beta2^t)
  float step_size;         // lr / (1 - beta1^t)
  float epsilon;
  float l2;      // adam: added to the gradient
  float shrink;  // adamw: the parameter is multiplied by it
};

AdamFactors adam_factors(const Settings& s, double lr, std::int64_t t) {
  const auto f = [](double x) { return static_cast<float>(x); };
  const double decay = weight_decay_of(s);
  const bool decoupled = s.kind == Kind::adamw;
  const auto correction = [t](double beta) { return 1 - std::pow(beta, static_cast<double>(t)); };
  return {.beta1 = f(s.beta1),
          .one_minus_beta1 = f(1 - s.beta1),
          .beta2 = f(s.beta2),
          .one_minus_beta2 = f(1 - s.beta2),
          .root_correction2 = f(std::sqrt(correction(s.beta2))),
          .step_size = f(lr / correction(s.beta1)),
          .epsilon = f(s.epsilon),
          .l2 = decoupled ? 0.0F : f(decay),
          .shrink = decoupled ? f(1 - lr * decay) : 1.0F};
}

TUTTI_SIMD_CLONES void sgd_loop(std::size_t n, float lr, float decay, float* __restrict p,
                                const float* __restrict gradient) {
  for (std::size_t i = 0; i < n; ++i) p[i] -= lr * decayed(gradient[i], p[i], decay);
}

TUTTI_SIMD_CLONES void momentum_loop(std::size_t n, float lr, float decay, float momentum,
                                     float* __restrict p, const float* __restrict gradient,
                                     float* __restrict velocity) {
  for (std::size_t i = 0; i < n; ++i) {
    velocity[i] = momentum * velocity[i] + decayed(gradient[i], p[i], decay);
    p[i] -= lr * velocity[i];
  }
}

TUTTI_SIMD_CLONES void nesterov_loop(std::size_t n, float lr, float decay, float momentum,
                                     float* __restrict p, const float* __restrict gradient,
                                     float* __restrict velocity) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = decayed(gradient[i], p[i], decay);
    velocity[i] = momentum * velocity[i] + g;
    p[i] -= lr * (g + momentum * velocity[i]);
  }
}

TUTTI_SIMD_CLONES void adam_loop(std::size_t n, const AdamFactors f, float* __restrict p,
                                 const float* __restrict gradient, float* __restrict mean,
                                 float* __restrict square) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = decayed(gradient[i], p[i], f.l2);
    mean[i] = f.beta1 * mean[i] + f.one_minus_beta1 * g;
    square[i] = f.beta2 * square[i] + f.one_minus_beta2 * g * g;
    const float scale = std::sqrt(square[i]) / f.root_correction2 + f.epsilon;
    p[i] = p[i] * f.shrink - f.step_size * mean[i] / scale;
  }
}

}  // namespace

int state_slots(Kind kind) {
  switch (kind) {
    case Kind::sgd:
      return 0;
    case Kind::momentum:
    case Kind::nesterov:
      return 1;
    case Kind::adam:
    case Kind::adamw:
      return 2;
  }
  return 0;
}

std::string_view slot_name(Kind kind, int slot) {
  const int slots = state_slots(kind);
  TUTTI_CHECK(slot >= 0 && slot < slots, "slot {} of {}", slot, name_of(kind));
  if (slots == 1) return "momentum";
  return slot == 0 ? "exp_avg" : "exp_avg_sq";
}

void step(const Settings& settings, double lr, std::int64_t t, std::span<float> parameters,
          std::span<const float> gradients, std::span<const std::span<float>> state) {
  const std::size_t n = parameters.size();
  TUTTI_CHECK(t >= 1, "steps count from 1, got {}", t);
  TUTTI_CHECK(gradients.size() == n, "{} gradients for {} parameters", gradients.size(), n);
  TUTTI_CHECK(static_cast<int>(state.size()) == state_slots(settings.kind), "{} slots for {}", state.size(),
              name_of(settings.kind));
  for (const auto& slot : state)
    TUTTI_CHECK(slot.size() == n, "{} of state for {} parameters", slot.size(), n);

  float* p = parameters.data();
  const float* g = gradients.data();
  const auto rate = static_cast<float>(lr);
  const auto decay = static_cast<float>(weight_decay_of(settings));
  const auto momentum = static_cast<float>(settings.momentum);
  switch (settings.kind) {
    case Kind::sgd:
      return sgd_loop(n, rate, decay, p, g);
    case Kind::momentum:
      return momentum_loop(n, rate, decay, momentum, p, g, state[0].data());
    case Kind::nesterov:
      return nesterov_loop(n, rate, decay, momentum, p, g, state[0].data());
    case Kind::adam:
    case Kind::adamw:
      return adam_loop(n, adam_factors(settings, lr, t), p, g, state[0].data(), state[1].data());
  }
}

}  // namespace tutti::optim
