#include "train/resume.h"

#include <algorithm>

#include "base/error.h"
#include "config/settings.h"
#include "train/strategy_settings.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

config::TrainConfig config_in(const checkpoint::Checkpoint& checkpoint) {
  try {
    auto config = checkpoint.meta.at("config").get<config::TrainConfig>();
    // 0.1.0 also resolved what the run's strategy did not read.
    reset_others_settings(exchange::find_strategy(config.strategy), config);
    return config;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(
        fmt::format("{}: no configuration of a run in it: {}", checkpoint.path.string(), e.what()));
  }
}

std::string digest_in(const checkpoint::Checkpoint& checkpoint) {
  return checkpoint.meta.value("data_sha256", "");
}

// Both carry the same messages in the same order, so that no bit depends on which of them it is.
bool carries_messages(const std::string& transport) {
  return transport == "tcp" || transport == "mpi";
}

// What must be as it was, or the run would not be the one that it goes on.
void check_same_run(const Setup& now, const checkpoint::Checkpoint& then) {
  const nlohmann::json a = now.config;
  const nlohmann::json b = config_in(then);
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("--resume {}: {}", now.config.resume, why));
  };
  const auto then_config = b.get<config::TrainConfig>();
  const bool reproducible = now.config.reproducible && then_config.reproducible;
  for (const auto& setting : config::settings()) {
    if (setting.on_resume == config::OnResume::may_change) continue;
    if (reproducible && setting.on_resume == config::OnResume::may_change_if_reproducible) continue;
    const std::string& key = setting.key;
    if (key == "transport" && carries_messages(a[key]) && carries_messages(b[key])) continue;
    if (a[key] != b[key]) {
      refuse(fmt::format("that run has {} {}, this one {}", key, b[key].dump(), a[key].dump()));
    }
  }
  if (const auto a_step = config::samples_a_step(then_config); a_step != config::samples_a_step(now.config)) {
    refuse(fmt::format("that run has {} samples a step, this one {} (--global-batch)", a_step,
                       config::samples_a_step(now.config)));
  }
  // A name says little of what lies under it. Checkpoints of 0.1.0 have nothing else.
  const auto digest = digest_in(then);
  if (digest.empty() && a["data"] != b["data"]) {
    refuse(fmt::format("that run has data {}, this one {}", b["data"].dump(), a["data"].dump()));
  }
  const auto model = then.meta.value("model_sha256", "");
  if (!model.empty() && model != now.model_sha256) {
    refuse(fmt::format("that run's network is not what is now in {}: its SHA-256 was {}, now it is {}",
                       now.config.model, model, now.model_sha256));
  }
  if (!digest.empty() && digest != now.data_sha256) {
    refuse(fmt::format("that run's data {} is not what is here as {}: its SHA-256 was {}, now it is {}",
                       b["data"].dump(), a["data"].dump(), digest, now.data_sha256));
  }
}

void go_on_from(const checkpoint::Checkpoint& checkpoint, Setup& setup) {
  setup.checkpoint = checkpoint.path.string();
  setup.first_step = checkpoint.step.value();
  if (checkpoint.meta.contains("routes")) checkpoint.meta["routes"].get_to(setup.routes);
  setup.ledger.reset();
  const auto ledger = checkpoint.meta.value("sample_ledger", nlohmann::json());
  if (!ledger.is_null()) setup.ledger = ledger.get<std::vector<EpochSums>>();
}

// Whether the run in the folder has ended as this one would: at its last step, or when its target was
// reached.
bool has_concluded(const Setup& setup, std::optional<std::int64_t> last_saved) {
  std::error_code ignored;
  if (!fs::is_regular_file(fs::path(setup.config.out) / observe::kSummaryFile, ignored)) return false;
  try {
    const auto s = observe::read_summary(setup.config.out);
    if (last_saved && *last_saved != s.steps) return false;
    const bool reached = s.until && s.until->reached;
    return s.steps >= setup.total_steps || (reached && s.config.value("until", "") == setup.config.until);
  } catch (const DataError&) {
    return false;  // damaged: the run ends once more
  }
}

}  // namespace

fs::path run_folder_of(const fs::path& run_or_step) {
  std::error_code ignored;
  if (!fs::is_regular_file(run_or_step / "manifest.json", ignored)) return run_or_step;
  const fs::path step = fs::weakly_canonical(run_or_step);
  const fs::path checkpoints = step.parent_path();
  // As the user wrote it, where that is possible: it is what we print.
  if (checkpoints.filename() != "checkpoints") return {};
  const fs::path written = run_or_step.has_filename() ? run_or_step : run_or_step.parent_path();
  const fs::path run = written.parent_path().parent_path();
  return !run.empty() && fs::weakly_canonical(run) == checkpoints.parent_path() ? run
                                                                                : checkpoints.parent_path();
}

config::TrainConfig config_of_run(const std::string& run_or_step) {
  const auto origin = checkpoint::find_origin(run_or_step);
  if (!origin) throw DataError(fmt::format("--resume {}: no finished checkpoint there", run_or_step));
  auto config = config_in(origin->checkpoint);
  // Where it runs now, or by what is said now, they may be others; saved they would read as if asked for.
  const auto chosen = origin->checkpoint.meta.value("chosen", std::vector<std::string>());
  for (const auto& setting : config::settings()) {
    if (std::ranges::find(chosen, setting.key) != chosen.end()) copy(setting, config::TrainConfig{}, config);
  }
  return config;
}

void prepare_resume(const RunPlan& plan, Prepared& prepared) {
  Setup& setup = prepared.setup;
  const auto& config = setup.config;
  const bool automatic = config.resume == kAuto;
  auto origin = checkpoint::find_origin(automatic ? config.out : config.resume);
  if (!origin && !automatic) {
    throw DataError(fmt::format("--resume {}: no finished checkpoint there", config.resume));
  }
  if (!origin) {
    prepared.complete = has_concluded(setup, std::nullopt);
    if (!prepared.complete && fs::exists(fs::path(config.out) / observe::kSummaryFile)) {
      throw ConfigError(
          fmt::format("--resume auto: the run in {} has ended and left no checkpoint to go on from; "
                      "--overwrite removes it and begins anew",
                      config.out));
    }
    return;
  }
  check_same_run(setup, origin->checkpoint);
  go_on_from(origin->checkpoint, setup);
  prepared.notes = std::move(origin->notes);
  prepared.complete = automatic && has_concluded(setup, setup.first_step);
  const bool only_ends = automatic && setup.first_step == plan.total_steps;
  if (setup.first_step >= plan.total_steps && !only_ends) {
    throw ConfigError(fmt::format("--resume {}: step {} of {} is done; ask for more with --steps or --epochs",
                                  config.resume, setup.first_step, plan.total_steps));
  }
}

std::vector<std::string> go_on_from_newest(Setup& setup) {
  auto origin = checkpoint::find_origin(setup.config.out);
  if (!origin || origin->checkpoint.step <= setup.first_step) return {};
  go_on_from(origin->checkpoint, setup);
  return std::move(origin->notes);
}

}  // namespace tutti::train
