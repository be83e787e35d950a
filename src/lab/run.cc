#include "lab/run.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "train/plan.h"

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
  spec.timeout = train::timeout_of(config);
  spec.servers = config.servers;
  spec.colocate = config.colocate;
  spec.local_memory = config.local_aggregation;
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

std::string conditions_of(const nlohmann::json& summary) {
  std::vector<std::string> said;
  if (const double pace = summary.value("pace_ms", 0.0); pace > 0)
    said.push_back(fmt::format("paced at {} ms", pace));
  if (const auto slow = summary.value("slow", std::string()); !slow.empty()) said.push_back("slowed " + slow);
  return fmt::format("{}", fmt::join(said, ", "));
}

bool replicas_agree(const nlohmann::json& summary) {
  const auto& replicas = summary.at("replicas_sha256");
  return std::ranges::all_of(replicas, [&](const auto& r) { return r == summary.at("parameters_sha256"); });
}

}  // namespace tutti::lab
