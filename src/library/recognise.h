// torch's optimizers that are ours, too.
#pragma once

#include <torch/optim/optimizer.h>

#include <optional>
#include <string>

#include "optim/settings.h"

namespace tutti::library {

// An optimizer's numbers, if it is one of which we have the flat loop.
struct Recognised {
  std::optional<optim::Settings> settings;
  std::string why_not;  // if there are none
};
Recognised recognise(const torch::optim::Optimizer& optimizer);

// The learning rate of its first group, now; 0 where it does not tell.
double learning_rate(const torch::optim::Optimizer& optimizer);
// That of all groups, where it lets itself be told.
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

}  // namespace tutti::library
