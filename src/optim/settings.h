// Which optimizer, and its numbers. Defaults are PyTorch's, so that its recipes mean the same here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::optim {

enum class Kind { sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, lars, lamb };

// "sgd", "momentum", ...: what people write after --optimizer.
std::string_view name_of(Kind kind);

// Throws ConfigError that lists the names.
Kind parse_kind(std::string_view name);

// Doubles, because 1 - 0.999f is off by one part in 10^5 and PyTorch's is not; the loops use floats.
struct Settings {
  Kind kind = Kind::sgd;
  double lr = 0.01;
  // Of momentum, nesterov, lars and rmsprop. Default: 0 for rmsprop, else 0.9.
  std::optional<double> momentum = std::nullopt;
  double beta1 = 0.9;  // adam, adamw, lamb
  double beta2 = 0.999;
  double alpha = 0.99;   // rmsprop
  double trust = 0.001;  // lars: what a step may change of a layer, as a part of its norm
  // Of adam, adamw, lamb, rmsprop and adagrad. Default: 1e-10 for adagrad, 1e-6 for lamb, else 1e-8.
  std::optional<double> epsilon = std::nullopt;
  // Added to the gradient (L2), but for adamw shrinks the parameter itself, and for lamb is part of the
  // direction. Default: 0.01 for adamw and lamb, else 0.
  std::optional<double> weight_decay = std::nullopt;

  bool operator==(const Settings&) const = default;
};

// Whether a step needs norms of whole layers: then a layer is updated by one call, in one place.
constexpr bool needs_layers(Kind kind) {
  return kind == Kind::lars || kind == Kind::lamb;
}

// Whether a parameter whose gradient is zero stays as it is, to the bit: then rows that nobody has read may
// be left out of a step.
bool leaves_rows_without_gradient(const Settings& settings);

double momentum_of(const Settings& settings);
double weight_decay_of(const Settings& settings);
double epsilon_of(const Settings& settings);

// Throws ConfigError that names the field, its value and what it may be. Only fields this kind uses are
// looked at.
void validate(const Settings& settings);

}  // namespace tutti::optim
