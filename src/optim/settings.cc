#include "optim/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include "base/error.h"

namespace tutti::optim {
namespace {

constexpr std::array kKinds{Kind::sgd,     Kind::momentum, Kind::nesterov, Kind::adam, Kind::adamw,
                            Kind::adagrad, Kind::rmsprop,  Kind::lars,     Kind::lamb};
constexpr std::array kWithMomentum{Kind::momentum, Kind::nesterov, Kind::rmsprop, Kind::lars};

std::string names_of(std::span<const Kind> kinds) {
  std::string names;
  for (const Kind kind : kinds) {
    names += names.empty() ? "" : ", ";
    names += name_of(kind);
  }
  return names;
}

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
    case Kind::rmsprop:
      return "rmsprop";
    case Kind::lars:
      return "lars";
    case Kind::lamb:
      return "lamb";
  }
  return "?";
}

Kind parse_kind(std::string_view name) {
  for (const Kind kind : kKinds) {
    if (name_of(kind) == name) return kind;
  }
  throw ConfigError(fmt::format("no optimizer is named '{}'; there are {}", name, names_of(kKinds)));
}

bool leaves_rows_without_gradient(const Settings& s) {
  return (s.kind == Kind::sgd || s.kind == Kind::adagrad) && weight_decay_of(s) == 0;
}

double momentum_of(const Settings& settings) {
  return settings.momentum.value_or(settings.kind == Kind::rmsprop ? 0.0 : 0.9);
}

double weight_decay_of(const Settings& settings) {
  const bool decays = settings.kind == Kind::adamw || settings.kind == Kind::lamb;
  return settings.weight_decay.value_or(decays ? 0.01 : 0.0);
}

double epsilon_of(const Settings& settings) {
  if (settings.epsilon) return *settings.epsilon;
  if (settings.kind == Kind::adagrad) return 1e-10;
  return settings.kind == Kind::lamb ? 1e-6 : 1e-8;
}

void validate(const Settings& settings) {
  const bool has_momentum = std::ranges::find(kWithMomentum, settings.kind) != kWithMomentum.end();
  require(has_momentum || !settings.momentum, "momentum", settings.momentum.value_or(0),
          fmt::format("left out with {}; those with momentum are {}", name_of(settings.kind),
                      names_of(kWithMomentum)));
  require_not_negative("lr", settings.lr);
  require_not_negative("weight_decay", weight_decay_of(settings));
  switch (settings.kind) {
    case Kind::sgd:
      break;
    case Kind::lars:
      require(std::isfinite(settings.trust) && settings.trust > 0, "trust", settings.trust,
              "a finite number above 0");
      require_fraction("momentum", momentum_of(settings));
      break;
    case Kind::nesterov:
      require(momentum_of(settings) > 0, "momentum", momentum_of(settings),
              "above 0 and below 1 for nesterov");
      [[fallthrough]];
    case Kind::momentum:
      require_fraction("momentum", momentum_of(settings));
      break;
    case Kind::rmsprop:
      require_fraction("momentum", momentum_of(settings));
      require_fraction("alpha", settings.alpha);
      require_not_negative("epsilon", epsilon_of(settings));
      break;
    case Kind::adam:
    case Kind::adamw:
    case Kind::lamb:
      require_fraction("beta1", settings.beta1);
      require_fraction("beta2", settings.beta2);
      [[fallthrough]];
    case Kind::adagrad:
      require_not_negative("epsilon", epsilon_of(settings));
      break;
  }
}

}  // namespace tutti::optim
