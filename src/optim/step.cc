// Every scalar is brought to a float once a call; the loops then do the same float operations in the same
// order for each element. The build turns off fused multiply-add here, so that a clone for a newer processor
// rounds alike.
#include "optim/step.h"

#include <algorithm>
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

// What a loop multiplies with, for one step.
struct Factors {
  float lr, decay, momentum, epsilon;
  float alpha, one_minus_alpha;  // rmsprop
  // adam and adamw:
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float root_correction2;  // sqrt(1 - beta2^t)
  float step_size;         // lr / (1 - beta1^t)
  float l2;                // adam: added to the gradient
  float shrink;            // adamw: the parameter is multiplied by it
};

Factors factors_of(const Settings& s, double lr, std::int64_t t) {
  TUTTI_CHECK(t >= 1, "steps count from 1, got {}", t);
  const auto f = [](double x) { return static_cast<float>(x); };
  const double decay = weight_decay_of(s);
  const bool decoupled = s.kind == Kind::adamw;
  const auto correction = [t](double beta) { return 1 - std::pow(beta, static_cast<double>(t)); };
  return {.lr = f(lr),
          .decay = f(decay),
          .momentum = f(momentum_of(s)),
          .epsilon = f(epsilon_of(s)),
          .alpha = f(s.alpha),
          .one_minus_alpha = f(1 - s.alpha),
          .beta1 = f(s.beta1),
          .one_minus_beta1 = f(1 - s.beta1),
          .beta2 = f(s.beta2),
          .one_minus_beta2 = f(1 - s.beta2),
          .root_correction2 = f(std::sqrt(correction(s.beta2))),
          .step_size = f(lr / correction(s.beta1)),
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

TUTTI_SIMD_CLONES void adam_loop(std::size_t n, const Factors& f, float* __restrict p,
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

TUTTI_SIMD_CLONES void adagrad_loop(std::size_t n, float lr, float decay, float epsilon, float* __restrict p,
                                    const float* __restrict gradient, float* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = decayed(gradient[i], p[i], decay);
    sum[i] += g * g;
    p[i] -= lr * g / (std::sqrt(sum[i]) + epsilon);
  }
}

TUTTI_SIMD_CLONES void rmsprop_loop(std::size_t n, const Factors& f, float* __restrict p,
                                    const float* __restrict gradient, float* __restrict square) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = decayed(gradient[i], p[i], f.decay);
    square[i] = f.alpha * square[i] + f.one_minus_alpha * g * g;
    p[i] -= f.lr * g / (std::sqrt(square[i]) + f.epsilon);
  }
}

TUTTI_SIMD_CLONES void rmsprop_momentum_loop(std::size_t n, const Factors& f, float* __restrict p,
                                             const float* __restrict gradient, float* __restrict square,
                                             float* __restrict velocity) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = decayed(gradient[i], p[i], f.decay);
    square[i] = f.alpha * square[i] + f.one_minus_alpha * g * g;
    velocity[i] = f.momentum * velocity[i] + g / (std::sqrt(square[i]) + f.epsilon);
    p[i] -= f.lr * velocity[i];
  }
}

TUTTI_SIMD_CLONES void add_loop(std::size_t n, float* into, const float* a, const float* b) {
  for (std::size_t i = 0; i < n; ++i) into[i] = a[i] + b[i];
}

TUTTI_SIMD_CLONES void divide_loop(std::size_t n, float* p, float divisor) {
  for (std::size_t i = 0; i < n; ++i) p[i] /= divisor;
}

void check_state(const Settings& settings, std::span<const std::span<float>> state, std::size_t n) {
  TUTTI_CHECK(static_cast<int>(state.size()) == state_slots(settings), "{} slots for {}", state.size(),
              name_of(settings.kind));
  for (const auto& slot : state)
    TUTTI_CHECK(slot.size() == n, "{} of state for {} parameters", slot.size(), n);
}

// Elements [at, at + n) of parameters and state.
void run_loop(Kind kind, const Factors& f, std::size_t at, std::size_t n, float* parameters, const float* g,
              std::span<const std::span<float>> state) {
  float* p = parameters + at;
  const auto slot = [&](std::size_t i) { return state[i].data() + at; };
  switch (kind) {
    case Kind::sgd:
      return sgd_loop(n, f.lr, f.decay, p, g);
    case Kind::momentum:
      return momentum_loop(n, f.lr, f.decay, f.momentum, p, g, slot(0));
    case Kind::nesterov:
      return nesterov_loop(n, f.lr, f.decay, f.momentum, p, g, slot(0));
    case Kind::adam:
    case Kind::adamw:
      return adam_loop(n, f, p, g, slot(0), slot(1));
    case Kind::adagrad:
      return adagrad_loop(n, f.lr, f.decay, f.epsilon, p, g, slot(0));
    case Kind::rmsprop:
      return state.size() == 1 ? rmsprop_loop(n, f, p, g, slot(0))
                               : rmsprop_momentum_loop(n, f, p, g, slot(0), slot(1));
    case Kind::lars:
    case Kind::lamb:
      TUTTI_CHECK(false, "{} updates whole layers", name_of(kind));
  }
}

}  // namespace

int state_slots(const Settings& settings) {
  switch (settings.kind) {
    case Kind::sgd:
      return 0;
    case Kind::momentum:
    case Kind::nesterov:
    case Kind::adagrad:
    case Kind::lars:
      return 1;
    case Kind::rmsprop:
      return momentum_of(settings) > 0 ? 2 : 1;
    case Kind::adam:
    case Kind::adamw:
    case Kind::lamb:
      return 2;
  }
  return 0;
}

std::string_view slot_name(const Settings& settings, int slot) {
  const int slots = state_slots(settings);
  TUTTI_CHECK(slot >= 0 && slot < slots, "slot {} of {}", slot, name_of(settings.kind));
  if (settings.kind == Kind::adagrad) return "sum";
  if (settings.kind == Kind::rmsprop) return slot == 0 ? "square_avg" : "momentum";
  if (slots == 1) return "momentum";
  return slot == 0 ? "exp_avg" : "exp_avg_sq";
}

void step(const Settings& settings, double lr, std::int64_t t, std::span<float> parameters,
          std::span<const float> gradients, std::span<const std::span<float>> state) {
  const std::size_t n = parameters.size();
  TUTTI_CHECK(gradients.size() == n, "{} gradients for {} parameters", gradients.size(), n);
  check_state(settings, state, n);
  run_loop(settings.kind, factors_of(settings, lr, t), 0, n, parameters.data(), gradients.data(), state);
}

void step_rows(const Settings& settings, double lr, std::int64_t t, std::size_t width,
               std::span<const std::uint32_t> rows, std::span<float> table, std::span<const float> gradients,
               std::span<const std::span<float>> state) {
  TUTTI_CHECK(gradients.size() == rows.size() * width, "{} gradients for {} rows of {}", gradients.size(),
              rows.size(), width);
  check_state(settings, state, table.size());
  const Factors factors = factors_of(settings, lr, t);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) {
      const std::size_t next = rows[i + kRowsAhead] * width;
      prefetch_to_write(table.data() + next, width);
      for (const auto& slot : state) prefetch_to_write(slot.data() + next, width);
    }
    const std::size_t at = rows[i] * width;
    TUTTI_CHECK(at + width <= table.size(), "row {} of {}", rows[i], table.size() / width);
    run_loop(settings.kind, factors, at, width, table.data(), gradients.data() + i * width, state);
  }
}

void average(std::span<float> into, std::span<const std::span<const float>> from) {
  TUTTI_CHECK(!from.empty());
  for (const auto& f : from) TUTTI_CHECK(f.size() == into.size(), "{} and {} floats", f.size(), into.size());
  const std::size_t n = into.size();
  if (from.size() == 1) {
    std::copy_n(from[0].data(), n, into.data());
    return;
  }
  add_loop(n, into.data(), from[0].data(), from[1].data());
  for (std::size_t k = 2; k < from.size(); ++k) add_loop(n, into.data(), into.data(), from[k].data());
  divide_loop(n, into.data(), static_cast<float>(from.size()));
}

void average_shards(std::span<float> into, const ShardTree& tree, std::vector<ShardTree::Held> nodes,
                    std::span<const std::span<const float>> from) {
  for (const auto& f : from) TUTTI_CHECK(f.size() == into.size(), "{} and {} floats", f.size(), into.size());
  const auto additions = tree.join(nodes);
  TUTTI_CHECK(nodes.size() == 1 && nodes[0].node == tree.root(), "{} nodes are left of the tree",
              nodes.size());
  // A block of every sum stays in the nearest caches until it has been added up.
  constexpr std::size_t kBlock = 1024;
  std::vector<float> sums(from.size() * kBlock);
  const auto sum_at = [&](int place) { return sums.data() + static_cast<std::size_t>(place) * kBlock; };
  for (std::size_t first = 0; first < into.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, into.size() - first);
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::copy_n(from[i].data() + first, n, sum_at(static_cast<int>(i)));
    }
    for (const auto& [to, other] : additions) add_loop(n, sum_at(to), sum_at(to), sum_at(other));
    float* const all = sum_at(nodes[0].place);
    divide_loop(n, all, static_cast<float>(tree.shards()));
    std::copy_n(all, n, into.data() + first);
  }
}

}  // namespace tutti::optim
