#include "optim/settings.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace tutti::optim {
namespace {

constexpr std::array kKinds{Kind::sgd,  Kind::momentum, Kind::nesterov,
                            Kind::adam, Kind::adamw,    Kind::adagrad};

void require(bool good, std::string_view field, double value, std::string_view rule) {
  if (!good) throw ConfigError(fmt::format("optimizer: {} is {}, but must be {}", field, value, rule));
}

void require_fraction(std::string_view field, double value) {
  require(value >= 0 && value < 1, field, value, "at least 0 and below 1");
}

void require_not_negative(std::string_view field, double value) {
  require(std::isfinite(value) && value >= 0, field, value, "a finite number, 0 or more");
}

}  // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::sgd:
      return "sgd";
    case Kind::momentum:
      return "momentum";
    case Kind::nesterov:
      return "nesterov";
    case Kind::adam:
      return "adam";
    case Kind::adamw:
      return "adamw";
    case Kind::adagrad:
      return "adagrad";
  }
  return "?";
}

Kind parse_kind(std::string_view name) {
  std::string names;
  for (const Kind kind : kKinds) {
    if (name_of(kind) == name) return kind;
    names += names.empty() ? "" : ", ";
    names += name_of(kind);
  }
  throw ConfigError(fmt::format("no optimizer is named '{}'; there are {}", name, names));
}

double weight_decay_of(const Settings& settings) {
  return settings.weight_decay.value_or(settings.kind == Kind::adamw ? 0.01 : 0.0);
}

double epsilon_of(const Settings& settings) {
  return settings.epsilon.value_or(settings.kind == Kind::adagrad ? 1e-10 : 1e-8);
}

void validate(const Settings& settings) {
  require_not_negative("lr", settings.lr);
  require_not_negative("weight_decay", weight_decay_of(settings));
  switch (settings.kind) {
    case Kind::sgd:
      break;
    case Kind::nesterov:
      require(settings.momentum > 0, "momentum", settings.momentum, "above 0 and below 1 for nesterov");
      [[fallthrough]];
    case Kind::momentum:
      require_fraction("momentum", settings.momentum);
      break;
    case Kind::adam:
    case Kind::adamw:
      require_fraction("beta1", settings.beta1);
      require_fraction("beta2", settings.beta2);
      [[fallthrough]];
    case Kind::adagrad:
      require_not_negative("epsilon", epsilon_of(settings));
      break;
  }
}

}  // namespace tutti::optim
