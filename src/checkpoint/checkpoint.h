// Checkpoints of a run: RUN/checkpoints/step-N/ holds model.safetensors, optimizer.safetensors,
// manifest.json, and, for each worker whose state differs from rank 0's, replica-R.safetensors.
//
// A step folder is written beside its place and renamed into it when all of it is on the disk, the manifest
// last; so a folder without a manifest is no checkpoint, and a crash at any moment leaves the checkpoints
// before it whole. One process saves into a run folder at a time; any number may read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

namespace tutti::checkpoint {

// A checkpoint, mapped and verified. Tensors view its files and live as long as it does.
struct Checkpoint {
  std::filesystem::path path;        // the step folder, or the bare file
  std::optional<std::int64_t> step;  // none for a bare file
  nlohmann::json meta;               // what the trainer gave; null for a bare file
  SafetensorsFile model;
  std::optional<SafetensorsFile> optimizer;  // none for a bare file
};

struct StepFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};

// RUN/checkpoints/step-N
std::filesystem::path step_folder(const std::filesystem::path& run, std::int64_t step);

// Where worker `rank` leaves what differs there, for the process that saves the step.
std::filesystem::path replica_path(const std::filesystem::path& run, std::int64_t step, int rank);

// Saves and returns the step folder; replaces a checkpoint of the same step. The tensors must not change
// meanwhile. The files of `replicas`, by rank, are at their replica_path() and move into the step folder. On
// failure throws RunError that names the path; nothing of the new checkpoint is left, the old ones are
// intact.
std::filesystem::path save(const std::filesystem::path& run, std::int64_t step,
                           std::span<const TensorView> model, std::span<const TensorView> optimizer,
                           const nlohmann::json& meta, std::span<const int> replicas = {});

// Removes what there is of a checkpoint that will not be saved. Ignores errors.
void discard_partial(const std::filesystem::path& run, std::int64_t step);

// Writes a worker's file at its replica_path(). Throws RunError.
void save_replica(const std::filesystem::path& run, std::int64_t step, int rank,
                  std::span<const TensorView> tensors);

// Reads a step folder after verifying every digest. Throws DataError, one line: which file, and which tensor
// or "header" with its bytes.
Checkpoint load(const std::filesystem::path& step_folder);

// What differs on worker `rank`, verified; nothing if the checkpoint has no such part. Throws DataError.
std::optional<SafetensorsFile> load_replica(const std::filesystem::path& step_folder, int rank);

// The finished checkpoints of a run, by step; none if there is no such folder.
std::vector<StepFolder> list(const std::filesystem::path& run);
std::optional<StepFolder> latest(const std::filesystem::path& run);

// What people may name on the command line: a step folder, a run folder (its latest step) or a .safetensors
// file. Throws DataError that names the path.
Checkpoint open_any(const std::filesystem::path& path);

}  // namespace tutti::checkpoint
