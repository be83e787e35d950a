// Everything that can be wrong with a run, found before a process is started or a file is written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/train_config.h"
#include "data/open.h"
#include "exchange/router.h"
#include "observe/summary.h"
#include "train/folder_lock.h"
#include "train/sample_ledger.h"

namespace tutti::train {

// What every worker receives: the resolved config and files that can be mapped as they are.
struct Setup {
  config::TrainConfig config;
  std::vector<Field> fields{};                     // of a sample; none: those that the model takes
  data::PartFiles files{};                         // none for data that is made up
  std::optional<std::string> checkpoint{};         // step folder to go on from
  std::int64_t first_step = 0;                     // steps that it has done
  std::vector<exchange::Route> routes{};           // that it had, where the strategy routes
  std::int64_t total_steps = 0;                    // of the whole run
  std::string data_sha256{};                       // of what it learns from and is tested on
  std::string model_sha256{};                      // of the file of a network of one's own; else empty
  std::vector<observe::Restart> restarts{};        // of this run so far
  std::vector<std::string> chosen{};               // keys of settings that a run which goes on chooses anew
  std::optional<std::vector<EpochSums>> ledger{};  // which samples those steps used, if the checkpoint says
};

void to_json(nlohmann::json& json, const Setup& setup);
void from_json(const nlohmann::json& json, Setup& setup);

struct Prepared {
  Setup setup;
  std::vector<UniqueFd> keep_open;  // memory behind `files`; workers inherit these numbers
  FolderLock lock;                  // of the run folder; empty as long as there is nothing to lock
  std::vector<std::string> notes;   // what a user should be told before it runs, a line each
  // Of its workers, of config::kernel_variables(); none: those of this process.
  std::optional<std::vector<std::string>> kernels{};
  bool complete = false;  // the run that --resume auto asks for has ended: nothing is left to do
};

// Where data is looked for, and where what was learned from it may be kept; an empty path: nowhere.
struct DataPlaces {
  std::vector<std::filesystem::path> roots;
  std::filesystem::path cache;
};

// Checks names, numbers, the run folder, data files and the checkpoint to resume; resolves what was left
// open. `now` names the default run folder. Where another launcher has started the processes, `started_on`
// says by process which of them share a host, by its number; else settings say it. A folder that another run
// holds is refused before data is read. Changes nothing on disk but the cache. Throws ConfigError, DataError.
Prepared prepare(config::TrainConfig config, const DataPlaces& places, std::optional<int> threads_wish,
                 const std::string& now, std::span<const int> started_on = {});

// On another host than the one that prepared the run: finds the same data there, by name or path, and makes
// the run folder where it is not shared. What is returned is as Prepared::keep_open. Throws ConfigError,
// DataError if the data is missing or another, RunError if the folder cannot be made.
std::vector<UniqueFd> localise(Setup& setup, const DataPlaces& places);

}  // namespace tutti::train
