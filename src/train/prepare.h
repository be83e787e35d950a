// Everything that can be wrong with a run, found before a process is started or a file is written.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/train_config.h"
#include "data/catalogue.h"

namespace tutti::train {

// What every worker receives: the resolved config and files that can be mapped as they are.
struct Setup {
  config::TrainConfig config;
  std::array<std::string, 4> files;       // by data::FileRole
  std::optional<std::string> checkpoint;  // step folder to go on from
};

void to_json(nlohmann::json& json, const Setup& setup);
void from_json(const nlohmann::json& json, Setup& setup);

struct Prepared {
  Setup setup;
  std::vector<UniqueFd> keep_open;  // memory behind `files`; workers inherit these numbers
};

// The config that a run folder's last checkpoint was written under. Throws DataError if there is none or it
// is damaged.
config::TrainConfig config_of_run(const std::string& run_folder);

// Checks names, numbers, data files, the checkpoint to resume and the run folder; resolves what was left
// open.// `now` names the default run folder. Throws ConfigError, DataError. Makes the run folder; changes
// nothing in it.
Prepared prepare(config::TrainConfig config, const std::vector<std::filesystem::path>& data_roots,
                 std::optional<int> threads_wish, const std::string& now);

// Removes from the run folder what an earlier run wrote there: summary, metrics, trace and finished
// checkpoints, and nothing else. A run that is resumed in its own folder keeps all. Throws
// std::filesystem::filesystem_error.
void clear_earlier_run(const Setup& setup);

// Removes what a rank that was killed while it saved has left in the run folder. Ignores errors.
void remove_unfinished_checkpoints(const std::string& run_folder);

}  // namespace tutti::train
