// torch's optimizers that are ours, too.
#pragma once

#include <torch/optim/optimizer.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optim/settings.h"

namespace tutti::library {

// An optimizer's numbers, if it is one of which we have the flat loop.
struct Recognised {
  std::optional<optim::Settings> settings;
  std::string why_not;  // if there are none
};
Recognised recognise(const torch::optim::Optimizer& optimizer);

// The learning rate, now, of an optimizer that runs as a flat loop with these settings: the loop has one for
// all parameters, and other numbers that stay. Throws ConfigError where the optimizer has changed otherwise.
double learning_rate(const torch::optim::Optimizer& optimizer, const optim::Settings& settings);

// The learning rate of each group, now; 0 where it does not tell.
std::vector<double> learning_rates(const torch::optim::Optimizer& optimizer);
// By group, where it lets itself be told.
void set_learning_rates(torch::optim::Optimizer& optimizer, std::span<const double> rates);

}  // namespace tutti::library
