// The command line, the environment and configuration files, as the table of settings has them (settings.h).
// `--lr 0.1`, `TUTTI_LR=0.1` and `lr = 0.1` in the file of `--config` are the same thing; the flag wins over
// the variable, the variable over the file.
#pragma once

#include <string>

#include "config/train_config.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace tutti::config {

// Adds a flag for every setting. The struct outlives the app.
void add_train_flags(CLI::App& command, TrainConfig& config);

// Of them those that say something of data of one's own, Group::own_data.
void add_own_data_flags(CLI::App& command, TrainConfig& config);

// What the variables of this process say of Group::joining, for programs that have no such flags. Throws
// ConfigError.
JoinSettings join_settings();

// Fills from the file what neither flag nor environment has set. Throws ConfigError that names file and key.
void apply_config_file(CLI::App& command, const std::string& path);

// Gives `config` the settings that flag, environment or file have set in the command whose struct is `given`.
void lay_over(const CLI::App& command, const TrainConfig& given, TrainConfig& config);

}  // namespace tutti::config
