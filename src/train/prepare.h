// Everything that can be wrong with a run, found before a process is started or a file is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/train_config.h"
#include "data/open.h"
#include "exchange/router.h"

namespace tutti::train {

// What every worker receives: the resolved config and files that can be mapped as they are.
struct Setup {
  config::TrainConfig config;
  data::PartFiles files{};                // none for data that is made up
  std::optional<std::string> checkpoint;  // step folder to go on from
  std::int64_t first_step = 0;            // steps that it has done
  std::vector<exchange::Route> routes{};  // that it had, where the strategy routes
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

// Where data is looked for, and where what was learned from it may be kept; an empty path: nowhere.
struct DataPlaces {
  std::vector<std::filesystem::path> roots;
  std::filesystem::path cache;
};

// Checks names, numbers, data files and the checkpoint to resume; resolves what was left open. `now` names
// the default run folder. Changes nothing on disk but the cache. Throws ConfigError, DataError.
Prepared prepare(config::TrainConfig config, const DataPlaces& places, std::optional<int> threads_wish,
                 const std::string& now);

// Makes the run folder, and removes from it what an earlier run wrote there: summary, metrics, samples,
// trace, page, TensorBoard's files, drawings and finished checkpoints, and nothing else. A run that is
// resumed in its own folder keeps all up to the step that it goes on from. Throws ConfigError if the folder
// cannot be written, std::filesystem::filesystem_error.
void make_run_folder(const Setup& setup);

// Removes what a rank that was killed while it saved has left in the run folder. Ignores errors.
void remove_unfinished_checkpoints(const std::string& run_folder);

}  // namespace tutti::train
