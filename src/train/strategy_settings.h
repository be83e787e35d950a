// Settings that single strategies read: which of them a run may have.
#pragma once

#include "config/train_config.h"
#include "exchange/strategy.h"

namespace tutti::train {

// A setting that only other strategies read would change nothing, and whoever gives it expects that it does.
// Throws ConfigError that names those strategies.
void require_own_settings(const exchange::Strategy& strategy, const config::TrainConfig& config);

// Gives those their defaults: of settings that several strategies were given together, what is for this one.
void reset_others_settings(const exchange::Strategy& strategy, config::TrainConfig& config);

}  // namespace tutti::train
