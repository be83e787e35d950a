#include "library/recognise.h"

#include <fmt/format.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <typeinfo>

#include "base/error.h"

namespace tutti::library {
namespace {

using optim::Kind;
using optim::Settings;

// What a setting must be for our loop to compute the same; else the reason.
std::string unless(bool same, const char* what) {
  return same ? "" : fmt::format("it has {}, which our loops do not know", what);
}

Recognised from(const torch::optim::SGDOptions& o) {
  const bool momentum = o.momentum() != 0;
  Settings s{.kind = o.nesterov() ? Kind::nesterov
                     : momentum   ? Kind::momentum
                                  : Kind::sgd,
             .lr = o.lr(),
             .weight_decay = o.weight_decay()};
  if (momentum) s.momentum = o.momentum();
  return {s, unless(!momentum || o.dampening() == 0, "dampening")};
}

template <typename Options>
Recognised from_adam(const Options& o, Kind kind) {
  const auto& [beta1, beta2] = o.betas();
  return {Settings{.kind = kind,
                   .lr = o.lr(),
                   .beta1 = beta1,
                   .beta2 = beta2,
                   .epsilon = o.eps(),
                   .weight_decay = o.weight_decay()},
          unless(!o.amsgrad(), "amsgrad")};
}
Recognised from(const torch::optim::AdamOptions& o) {
  return from_adam(o, Kind::adam);
}
Recognised from(const torch::optim::AdamWOptions& o) {
  return from_adam(o, Kind::adamw);
}

Recognised from(const torch::optim::RMSpropOptions& o) {
  return {Settings{.kind = Kind::rmsprop,
                   .lr = o.lr(),
                   .momentum = o.momentum(),
                   .alpha = o.alpha(),
                   .epsilon = o.eps(),
                   .weight_decay = o.weight_decay()},
          unless(!o.centered(), "centered averages")};
}

Recognised from(const torch::optim::AdagradOptions& o) {
  return {Settings{.kind = Kind::adagrad, .lr = o.lr(), .epsilon = o.eps(), .weight_decay = o.weight_decay()},
          unless(o.lr_decay() == 0 && o.initial_accumulator_value() == 0,
                 "lr_decay or initial_accumulator_value")};
}

// Adagrad makes its state when it is made itself.
bool has_made_steps(const torch::optim::Optimizer& optimizer) {
  if (typeid(optimizer) != typeid(torch::optim::Adagrad)) return !optimizer.state().empty();
  return std::ranges::any_of(optimizer.state(), [](const auto& item) {
    return static_cast<const torch::optim::AdagradParamState&>(*item.second).step() > 0;
  });
}

// The options of all groups, if the optimizer is torch's of this class; one that is derived from it may do
// anything.
template <typename Optimizer, typename Options>
std::optional<Recognised> as(const torch::optim::Optimizer& optimizer) {
  if (typeid(optimizer) != typeid(Optimizer)) return std::nullopt;
  if (has_made_steps(optimizer)) return Recognised{{}, "it has made steps of its own"};
  std::optional<Recognised> first;
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    if (first && !(options == static_cast<const Options&>(optimizer.param_groups()[0].options()))) {
      return Recognised{{}, "its groups have different numbers"};
    }
    if (!first) first = from(options);
  }
  if (first && !first->why_not.empty()) first->settings.reset();
  return first;
}

}  // namespace

Recognised recognise(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  if (auto r = as<SGD, SGDOptions>(optimizer)) return *r;
  if (auto r = as<Adam, AdamOptions>(optimizer)) return *r;
  if (auto r = as<AdamW, AdamWOptions>(optimizer)) return *r;
  if (auto r = as<RMSprop, RMSpropOptions>(optimizer)) return *r;
  if (auto r = as<Adagrad, AdagradOptions>(optimizer)) return *r;
  return {{}, "it is none of torch's SGD, Adam, AdamW, RMSprop and Adagrad"};
}

double learning_rate(const torch::optim::Optimizer& optimizer, const optim::Settings& settings) {
  const auto now = recognise(optimizer);
  auto then = settings;
  if (now.settings) then.lr = now.settings->lr;
  if (now.settings != then) {
    throw ConfigError(fmt::format(
        "the optimizer has changed since the training began ({}); of one whose groups have the same "
        "numbers only the learning rate may, in all groups at once",
        now.settings ? "other numbers than the learning rate" : now.why_not));
  }
  return then.lr;
}

std::vector<double> learning_rates(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) {
    try {
      rates.push_back(group.has_options() ? group.options().get_lr() : 0);
    } catch (const c10::Error&) {
      rates.push_back(0);  // one of the user's own, which does not tell
    }
  }
  return rates;
}

void set_learning_rates(torch::optim::Optimizer& optimizer, std::span<const double> rates) {
  for (std::size_t g = 0; g < rates.size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    try {
      if (group.has_options()) group.options().set_lr(rates[g]);
    } catch (const c10::Error&) {  // as above
    }
  }
}

}  // namespace tutti::library
