// When a run has learned enough.
#pragma once

#include <optional>
#include <string>

#include "config/train_config.h"
#include "models/model.h"
#include "train/evaluate.h"

namespace tutti::train {

// A figure of the model's and the value that it shall reach.
struct Target {
  std::string figure;
  double value = 0;
  bool small_is_good = false;

  bool reached_by(const Evaluation& evaluation) const;
};

// What --until asks for, if anything. Throws ConfigError that lists the model's figures if it is none of
// them.
std::optional<Target> target_of(const config::TrainConfig& config, const models::ModelInfo& model);

}  // namespace tutti::train
