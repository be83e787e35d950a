// Where two runs begin to differ: the step, the tensor and the element, and on which side of the exchange.
//
//   checkpoints of common steps   c: the last that agree        d: the first that do not
//   both runs again, c to d       every worker records a digest of all that goes through each step
//   and once more                 records the first step that differs as it is
//
// A checkpoint has rank 0's parameters. Where another replica went astray they agree for some steps more, and
// a run that goes on from there begins with all replicas healed; so where replays from c agree, those from an
// earlier checkpoint follow, up to the beginning.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/train_config.h"
#include "lab/first_difference.h"

namespace tutti::lab {

struct Bisection {
  bool identical = false;
  // Settings that are not the same, "seed: 1 against 2"; but for those that change no result.
  std::vector<std::string> settings = {};
  // What computed the first checkpoints that differ, where it is not the same, and so the likely reason:
  // "processor: "A" against "B"".
  std::vector<std::string> arithmetic = {};
  std::int64_t equal_until = 0;  // steps: the last common checkpoint that agrees; 0: the beginning
  std::optional<std::int64_t> differ_from = {};  // the first that does not; none: all agree
  // None: nothing was found. Where replays agree and checkpoints do not, what the first that do not agree
  // have otherwise: its stage is "checkpoint".
  std::optional<Place> place = {};
  std::optional<ElementDifference> element = {};
  std::string side = {};    // in words: which side of the exchange, and whose
  std::string remark = {};  // what else there is to say, if anything
};
void to_json(nlohmann::json& json, const Bisection& bisection);
// Lines for people.
std::string render(const Bisection& bisection);

// How runs are made again.
struct Replays {
  std::filesystem::path scratch;  // their folders are made below it
  // Trains to the end, by these of config::kernel_variables() and no others; none: by those of this process.
  // Returns why that failed; empty: it did not. Throws what keeps it from starting.
  std::function<std::string(const config::TrainConfig&,
                            const std::optional<std::vector<std::string>>& kernels)>
      train;
  std::function<void(const std::string&)> say;  // what it does, a line at a time
};

// Of two run folders. Each run is made again with the kernel variables that its checkpoint names. Throws
// DataError or ConfigError where they cannot be compared: no run, no common step, other models, workers that
// do not keep step; RunError where a run cannot be made again.
Bisection bisect(const std::filesystem::path& a, const std::filesystem::path& b, const Replays& replays);

// The settings with which a run is made again from a checkpoint (empty: from its beginning) to a step. What
// decides about its bits stays as it is, among it when statistics are averaged. What MPI carried goes over
// TCP, by the same schedules; what MPI's collectives added up --engine native adds up.
config::TrainConfig replay_of(config::TrainConfig config, const std::filesystem::path& checkpoint,
                              std::int64_t last_step, const std::filesystem::path& out);

}  // namespace tutti::lab
