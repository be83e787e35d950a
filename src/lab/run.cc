#include "lab/run.h"

#include <algorithm>

namespace tutti::lab {

launch::Outcome run_training(const train::Prepared& run, const std::string& program,
                             const launch::Listener& listener) {
  const auto& config = run.setup.config;
  train::make_run_folder(run.setup);
  launch::JobSpec spec;
  spec.program = program;
  spec.workers = config.workers;
  spec.task = kTrainTask;
  spec.payload = run.setup;
  spec.transport = config.transport;
  spec.busy_threads = config.threads + 1;  // backward computes while the exchange waits
  spec.timeout = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(config.timeout_s));
  for (const UniqueFd& fd : run.keep_open) spec.inherit.push_back(fd.get());
  const auto outcome = launch::run(spec, listener);
  if (outcome.exit_code != 0) train::remove_unfinished_checkpoints(config.out);
  return outcome;
}

nlohmann::json read_summary(const std::string& run_folder) {
  const auto path = std::filesystem::path(run_folder) / "summary.json";
  try {
    return nlohmann::json::parse(read_file(path));
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

bool replicas_agree(const nlohmann::json& summary) {
  const auto& replicas = summary.at("replicas_sha256");
  return std::ranges::all_of(replicas, [&](const auto& r) { return r == summary.at("parameters_sha256"); });
}

}  // namespace tutti::lab
