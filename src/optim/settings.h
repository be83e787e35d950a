// Which optimizer, and its numbers. Defaults are PyTorch's, so that its recipes mean the same here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::optim {

enum class Kind { sgd, momentum, nesterov, adam, adamw, adagrad };

// "sgd", "momentum", ...: what people write after --optimizer.
std::string_view name_of(Kind kind);

// Throws ConfigError that lists the names.
Kind parse_kind(std::string_view name);

// Doubles, because 1 - 0.999f is off by one part in 10^5 and PyTorch's is not; the loops use floats.
struct Settings {
  Kind kind = Kind::sgd;
  double lr = 0.01;
  double momentum = 0.9;  // momentum, nesterov
  double beta1 = 0.9;     // adam, adamw
  double beta2 = 0.999;
  // Of adam, adamw and adagrad. Default: 1e-10 for adagrad, else 1e-8.
  std::optional<double> epsilon = std::nullopt;
  // Added to the gradient (L2), but for adamw shrinks the parameter itself. Default: 0.01 for adamw, else 0.
  std::optional<double> weight_decay = std::nullopt;
};

double weight_decay_of(const Settings& settings);
double epsilon_of(const Settings& settings);

// Throws ConfigError that names the field, its value and what it may be. Only fields this kind uses are
// looked at.
void validate(const Settings& settings);

}  // namespace tutti::optim
