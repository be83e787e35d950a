// The command line as a mirror of the config structs: flag, environment variable and configuration file in
// one declaration each. `--lr 0.1`, `TUTTI_LR=0.1` and `lr = 0.1` in the file of `--config` are the same
// thing; the flag wins over the variable, the variable over the file.
#pragma once

#include <CLI/CLI.hpp>

#include "config/train_config.h"

namespace tutti::config {

// Adds every train flag to the command. The struct outlives the app.
void add_train_flags(CLI::App& command, TrainConfig& config);

// Of them those that say something of data of one's own: --label, --features, --test-share, --test-data.
void add_own_data_flags(CLI::App& app, TrainConfig& config);

// Fills from the file what neither flag nor environment has set. Throws ConfigError that names file and key.
void apply_config_file(CLI::App& command, const std::string& path);

}  // namespace tutti::config
