#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/manifest.h"

namespace tutti::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr auto kModel = "model.safetensors";
constexpr auto kOptimizer = "optimizer.safetensors";
constexpr auto kManifest = "manifest.json";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kReplica = "replica-";

std::string replica_name(int rank) {
  return fmt::format("{}{}.safetensors", kReplica, rank);
}

// 12 for "step-12"; nothing for any other name, among them "step-012" and "step-12.partial".
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!std::string_view(name).starts_with(kStep)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kStep.size(), end, step);
  if (error != std::errc() || stop != end || name != fmt::format("{}{}", kStep, step)) return std::nullopt;
  return step;
}

bool is_finished(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kManifest, ignored);
}

void move_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno(fmt::format("cannot write {}", to.string()));
}

// Puts the finished folder at its place. Where an older one stands there, the two change places in one
// operation, so that at every moment there is a whole checkpoint; other file systems rename twice.
void publish(const fs::path& finished, const fs::path& place) {
  if (!fs::exists(place)) {
    move_to(finished, place);
  } else if (::renameat2(AT_FDCWD, finished.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
    remove_tree(finished);
  } else {
    const fs::path old = place.string() + ".replaced";
    move_to(place, old);
    try {
      move_to(finished, place);
    } catch (...) {
      move_to(old, place);
      throw;
    }
    remove_tree(old);
  }
  sync_folder(place.parent_path());
}

struct Content {
  std::span<const TensorView> model;
  std::span<const TensorView> optimizer;
  const nlohmann::json& meta;
  std::span<const int> replicas;
};

void write_into(const fs::path& folder, const fs::path& run, std::int64_t step, const Content& content) {
  Manifest manifest{.step = step, .meta = content.meta, .files = {}};
  const auto write = [&](const char* name, std::span<const TensorView> tensors) {
    const auto layout = lay_out(tensors);
    manifest.files.push_back(describe(name, layout));
    write_file_atomically(folder / name, layout.pieces());
  };
  write(kModel, content.model);
  write(kOptimizer, content.optimizer);
  for (const int rank : content.replicas) {
    const std::string name = replica_name(rank);
    move_to(replica_path(run, step, rank), folder / name);
    manifest.files.push_back(describe(name, lay_out(SafetensorsFile(folder / name).tensors())));
  }
  write_file_atomically(folder / kManifest, to_text(manifest));
}

SafetensorsFile verified(const Manifest& manifest, const fs::path& folder, const char* name) {
  const auto stored = std::find_if(manifest.files.begin(), manifest.files.end(),
                                   [name](const StoredFile& file) { return file.name == name; });
  const fs::path path = folder / name;
  if (stored == manifest.files.end()) {
    throw DataError(fmt::format("{}: lists no {}", (folder / kManifest).string(), name));
  }
  Mapping mapping = map_file(path);
  verify(*stored, mapping.bytes(), path.string());
  return {std::move(mapping), path};
}

}  // namespace

fs::path step_folder(const fs::path& run, std::int64_t step) {
  return run / "checkpoints" / fmt::format("{}{}", kStep, step);
}

// Beside the step folder, with an ending that marks what a run that was killed has left.
fs::path replica_path(const fs::path& run, std::int64_t step, int rank) {
  return fs::path(step_folder(run, step).string() + ".replicas.partial") / replica_name(rank);
}

void discard_partial(const fs::path& run, std::int64_t step) {
  std::error_code ignored;
  remove_tree(step_folder(run, step).string() + ".partial", ignored);
  remove_tree(replica_path(run, step, 0).parent_path(), ignored);
}

void save_replica(const fs::path& run, std::int64_t step, int rank, std::span<const TensorView> tensors) {
  const fs::path path = replica_path(run, step, rank);
  try {
    fs::create_directories(path.parent_path());
  } catch (const fs::filesystem_error& e) {
    throw RunError(fmt::format("cannot save {}: {}", path.string(), e.code().message()));
  }
  write_safetensors(path, tensors);
}

fs::path save(const fs::path& run, std::int64_t step, std::span<const TensorView> model,
              std::span<const TensorView> optimizer, const nlohmann::json& meta,
              std::span<const int> replicas) {
  TUTTI_CHECK(step >= 0, "step {}", step);
  fs::path place = step_folder(run, step);
  const fs::path partial = place.string() + ".partial";
  std::error_code ignored;
  try {
    remove_tree(partial);  // left by a process that died
    fs::create_directories(partial);
    sync_folder(run);
    write_into(partial, run, step, {model, optimizer, meta, replicas});
    publish(partial, place);
    remove_tree(replica_path(run, step, 0).parent_path(), ignored);
  } catch (const fs::filesystem_error& e) {
    discard_partial(run, step);
    throw RunError(fmt::format("cannot save checkpoint {}: {}", place.string(), e.code().message()));
  } catch (const RunError& e) {
    discard_partial(run, step);
    throw RunError(fmt::format("cannot save checkpoint {}: {}", place.string(), e.what()));
  } catch (...) {
    discard_partial(run, step);
    throw;
  }
  return place;
}

Checkpoint load(const fs::path& step_folder) {
  const fs::path path = step_folder / kManifest;
  auto manifest = parse_manifest(read_file(path), path.string());
  for (const StoredFile& file : manifest.files) {
    if (file.name.starts_with(kReplica)) verified(manifest, step_folder, file.name.c_str());
  }
  return {.path = step_folder,
          .step = manifest.step,
          .meta = std::move(manifest.meta),
          .model = verified(manifest, step_folder, kModel),
          .optimizer = verified(manifest, step_folder, kOptimizer)};
}

std::optional<SafetensorsFile> load_replica(const fs::path& step_folder, int rank) {
  const fs::path path = step_folder / kManifest;
  const auto manifest = parse_manifest(read_file(path), path.string());
  const std::string name = replica_name(rank);
  const auto listed = std::ranges::find(manifest.files, name, &StoredFile::name);
  if (listed == manifest.files.end()) return std::nullopt;
  return verified(manifest, step_folder, name.c_str());
}

std::vector<StepFolder> list(const fs::path& run) {
  std::vector<StepFolder> found;
  std::error_code missing;
  for (fs::directory_iterator at(run / "checkpoints", missing), end; !missing && at != end;
       at.increment(missing)) {
    const auto step = step_of(at->path().filename().string());
    if (step && is_finished(at->path())) found.push_back({.step = *step, .path = at->path()});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::optional<StepFolder> latest(const fs::path& run) {
  const auto found = list(run);
  return found.empty() ? std::nullopt : std::optional(found.back());
}

Checkpoint open_any(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return {.path = path, .step = {}, .meta = {}, .model = SafetensorsFile(path), .optimizer = {}};
  }
  if (is_finished(path)) return load(path);
  if (const auto found = latest(path)) return load(found->path);
  throw DataError(fmt::format(
      "{}: no checkpoint: holds neither a manifest.json nor a finished checkpoints/step-N", path.string()));
}

}  // namespace tutti::checkpoint
