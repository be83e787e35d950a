#include "train/run_folder.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/version.h"
#include "checkpoint/series.h"
#include "train/resume.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "tutti run";
constexpr int kFormat = 1;

constexpr std::string_view kFiles[] = {"summary.json", "metrics.jsonl", "trace.json", "report.html"};
constexpr std::string_view kFolders[] = {"checkpoints", "samples", "tensorboard", "record"};
constexpr std::string_view kSamplesOfRank = "samples-rank-";
constexpr std::string_view kProbe = ".writable";  // 0.1.0 wrote it to see whether it may

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

bool is_run_name(const std::string& name) {
  return std::ranges::find(kFiles, name) != std::end(kFiles) ||
         std::ranges::find(kFolders, name) != std::end(kFolders) || name.starts_with(kSamplesOfRank) ||
         name == kMarker;
}

// The number and what follows it, of "step-12.partial"; nothing for names that are no step's.
struct StepName {
  std::int64_t step = 0;
  std::string suffix;
};
std::optional<StepName> step_name(const std::string& name) {
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep)) return std::nullopt;
  StepName found;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kStep.size(), end, found.step);
  if (error != std::errc() || (stop != end && *stop != '.')) return std::nullopt;
  found.suffix.assign(stop, end);
  return found;
}

bool has_marker(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kMarker, ignored)) return false;
  const auto json = nlohmann::json::parse(read_file(folder / kMarker), nullptr, false);
  return json.is_object() && json.value("kind", nlohmann::json()) == kKind;
}

void write_marker(const Setup& setup) {
  const nlohmann::json marker = {
      {"kind", kKind}, {"format", kFormat}, {"version", kVersion}, {"config", setup.config}};
  try {
    write_file_atomically(fs::path(setup.config.out) / kMarker, marker.dump(2) + "\n");
  } catch (const RunError& e) {
    throw ConfigError(fmt::format("--out {}: {}", setup.config.out, e.what()));
  }
}

// What a run that ended while it took the folder may have left does not count.
bool has_nothing(const fs::path& folder) {
  return std::ranges::all_of(entries(folder), [](const fs::path& path) {
    const auto name = path.filename().string();
    return name == kLockFile || is_unfinished_write(name, kMarker);
  });
}

void remove_if(const fs::path& folder, const auto& holds) {
  for (const auto& path : entries(folder)) {
    if (holds(path.filename().string())) remove_tree(path);
  }
}

// The summary goes first: a folder that is half cleared must not look like a run that is complete.
void remove_conclusions(const fs::path& out) {
  for (const char* file : {"summary.json", "report.html", "trace.json"}) fs::remove(out / file);
}

void clear(const fs::path& out) {
  remove_conclusions(out);
  for (const auto file : kFiles) fs::remove(out / file);
  remove_if(out, [](const std::string& name) { return name.starts_with(kSamplesOfRank); });
  remove_if(out / "samples", [](const std::string& name) { return step_name(name).has_value(); });
  remove_if(out / "tensorboard",
            [](const std::string& name) { return name.starts_with("events.out.tfevents."); });
  remove_if(out / "record", [](const std::string& name) {
    return step_name(name).has_value() || name.starts_with("digests-rank-");
  });
  remove_if(out / "checkpoints", [](const std::string& name) {
    const auto step = step_name(name);
    return step && (step->suffix.empty() || step->suffix.ends_with(".partial") ||
                    step->suffix == ".replaced" || step->suffix.starts_with(".superseded"));
  });
}

// What a run did after the checkpoint that it goes on from, it does again; a line cut short by its end goes
// too. A run with no step left evaluates and saves again, and says so again.
void forget_later_lines(const fs::path& metrics, const Setup& setup) {
  if (!fs::exists(metrics)) return;
  const bool only_ends = setup.first_step == setup.total_steps;
  std::istringstream lines(read_file(metrics));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto step = json.value("step", std::int64_t{0});
    const bool again = step > setup.first_step ||
                       (only_ends && step == setup.first_step && json.value("event", "") != "step");
    if (!again) kept += line + "\n";
  }
  write_file_atomically(metrics, kept);
}

std::vector<std::string> set_aside_later(const fs::path& out, std::int64_t step) {
  std::vector<std::string> notes;
  for (const auto& [from, to] : checkpoint::set_aside_later(out, step)) {
    notes.push_back(fmt::format("{} is later than step {}, which the run goes on from: set aside as {}",
                                from.string(), step, to.filename().string()));
  }
  return notes;
}

}  // namespace

config::TrainConfig config_in_marker(const fs::path& folder) {
  if (!has_marker(folder))
    throw DataError(fmt::format("{}: no run folder: it has no {} of ours", folder.string(), kMarker));
  try {
    return nlohmann::json::parse(read_file(folder / kMarker)).at("config").get<config::TrainConfig>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: {}", (folder / kMarker).string(), e.what()));
  }
}

bool goes_on_in_place(const config::TrainConfig& c) {
  if (c.resume.empty()) return false;
  if (c.resume == kAuto) return checkpoint::latest(c.out).has_value();
  return fs::weakly_canonical(c.out) == fs::weakly_canonical(run_folder_of(c.resume));
}

void require_usable_folder(const config::TrainConfig& c) {
  const fs::path out = c.out;
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("--out {}: {}", c.out, why));
  };
  if (fs::exists(out) && !fs::is_directory(out)) refuse("not a folder");
  if (goes_on_in_place(c)) {
    if (c.overwrite) refuse("--overwrite would remove the run that --resume goes on with; leave one out");
    return;
  }
  if (has_nothing(out)) return;
  const bool marked = has_marker(out);
  if (marked && (c.overwrite || c.resume == kAuto)) return;
  if (c.overwrite) {
    for (const auto& path : entries(out)) {
      const auto name = path.filename().string();
      if (is_run_name(name)) {
        refuse(
            fmt::format("{} is there, and no {} of ours that says it is a run's: --overwrite leaves it "
                        "alone; move it away or choose another folder",
                        name, kMarker));
      }
    }
    return;
  }
  refuse(marked
             ? fmt::format("a run is there: --resume {} goes on with it, --overwrite removes it and begins "
                           "anew",
                           c.out)
             : fmt::format("not empty, and not marked as a run's: --resume {} goes on from checkpoints "
                           "there, --overwrite trains beside what is there",
                           c.out));
}

std::vector<std::string> make_run_folder(const Setup& setup) {
  const fs::path out = setup.config.out;
  std::error_code e;
  fs::create_directories(out, e);
  if (e) throw ConfigError(fmt::format("--out {}: {}", out.string(), e.message()));
  require_usable_folder(setup.config);  // once more, now that nobody else can change it
  const bool in_place = goes_on_in_place(setup.config);
  if (setup.config.resume == kAuto && in_place != setup.checkpoint.has_value()) {
    throw ConfigError(fmt::format("--out {}: another run was there meanwhile; try again", out.string()));
  }
  const bool ours = has_marker(out);
  if (in_place || ours || has_nothing(out)) sweep_run_folder(out);
  if (ours && !in_place) clear(out);
  write_marker(setup);
  return in_place ? rewind_run_folder(setup) : std::vector<std::string>();
}

std::vector<std::string> rewind_run_folder(const Setup& setup) {
  const fs::path out = setup.config.out;
  sweep_run_folder(out);
  remove_conclusions(out);
  forget_later_lines(out / "metrics.jsonl", setup);
  remove_if(out / "samples", [&](const std::string& name) {
    const auto drawn = step_name(name);
    return drawn && drawn->step > setup.first_step;
  });
  return set_aside_later(out, setup.first_step);
}

void sweep_run_folder(const fs::path& out) {
  std::error_code ignored;
  for (const auto& path : entries(out)) {
    const auto name = path.filename().string();
    const auto temporary = [&](std::string_view file) { return is_unfinished_write(name, file); };
    if (std::ranges::any_of(kFiles, temporary) || temporary(kMarker) || name == kProbe) {
      fs::remove(path, ignored);
    }
  }
  for (const auto& path : entries(out / "samples")) {
    const auto name = step_name(path.filename().string());
    if (name && is_unfinished_write(name->suffix, ".png")) fs::remove(path, ignored);
  }
  for (const auto& path : entries(out / "checkpoints")) {
    const auto name = step_name(path.filename().string());
    if (name && name->suffix.ends_with(".partial")) remove_tree(path, ignored);
    if (name && name->suffix == ".replaced") {
      // Where two folders cannot change places in one operation, a kill between two renames leaves only this.
      const auto place = checkpoint::step_folder(out, name->step);
      fs::exists(place, ignored) ? remove_tree(path, ignored) : fs::rename(path, place, ignored);
    }
  }
}

}  // namespace tutti::train
