#include "lab/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "emulate/cluster.h"
#include "train/plan.h"

namespace tutti::lab {

namespace {

launch::Outcome tidied(launch::Outcome outcome, const std::string& run_folder) {
  if (outcome.exit_code != 0) train::remove_unfinished_checkpoints(run_folder);
  return outcome;
}

}  // namespace

launch::Outcome run_training(const train::Prepared& run, const std::string& program,
                             const launch::Listener& listener) {
  const auto& config = run.setup.config;
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
  std::optional<emulate::Cluster> cluster;
  if (const auto emulation = config::parse_emulation(config.emulate)) {
    cluster.emplace(*emulation, launch::processes_of(spec));
  }
  train::make_run_folder(run.setup);
  if (!cluster) return tidied(launch::run(spec, listener), config.out);
  auto [outcome, traffic] = cluster->run(spec, listener);
  if (outcome.exit_code == 0) {
    auto summary = read_summary(config.out);
    summary["emulated"] = std::move(traffic);
    write_file_atomically(std::filesystem::path(config.out) / "summary.json", summary.dump(2) + "\n");
  }
  return tidied(outcome, config.out);
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
  std::string said;
  const auto add = [&](const std::string& condition) {
    if (!said.empty()) said += ", ";
    said += condition;
  };
  if (const double pace = summary.value("pace_ms", 0.0); pace > 0) add(fmt::format("paced at {} ms", pace));
  if (const auto slow = summary.value("slow", std::string()); !slow.empty()) add("slowed " + slow);
  if (summary.contains("emulated")) {
    const auto& e = summary["emulated"];
    add(fmt::format("emulated hosts={},link={}", e.at("hosts").get<int>(), e.at("link").get<std::string>()));
  }
  return said;
}

bool replicas_agree(const nlohmann::json& summary) {
  const auto& replicas = summary.at("replicas_sha256");
  return std::ranges::all_of(replicas, [&](const auto& r) { return r == summary.at("parameters_sha256"); });
}

}  // namespace tutti::lab
