#include "lab/bench_emulated.h"

#include <algorithm>

#include "emulate/cluster.h"

namespace tutti::lab {
namespace {

std::vector<nlohmann::json> one_size_each(const nlohmann::json& payload) {
  std::vector<nlohmann::json> all;
  const bool table = payload.value("table_rows", 0) > 0;
  for (const auto& size : payload.at("sizes")) {
    auto one = payload;
    one["sizes"] = {size};
    if (table) one["table_rows"] = 0;
    all.push_back(std::move(one));
  }
  if (!table) return all;
  all.push_back(payload);
  all.back()["sizes"] = nlohmann::json::array();
  return all;
}

}  // namespace

double passes_of_busiest_link(const nlohmann::json& row, int hosts) {
  if (row.contains("servers")) {
    return std::max(1.0, row.at("workers").get<double>() / row.at("servers").get<double>());
  }
  // What ranks of one host bring can be added up before it leaves.
  const int apart = std::min(hosts, row.at("ranks").get<int>());
  return 2.0 * (apart - 1) / apart;
}

launch::Outcome bench_emulated(const config::Emulation& emulation, const launch::JobSpec& job,
                               const launch::Listener& listener, nlohmann::json& rows) {
  const emulate::Cluster cluster(emulation, launch::processes_of(job));
  const double rate = cluster.measure_link();
  const bool apart = cluster.hosts() >= launch::processes_of(job);
  launch::Outcome last;
  for (auto& payload : one_size_each(job.payload)) {
    auto one = job;
    one.payload = std::move(payload);
    const std::size_t first = rows.size();
    auto [outcome, traffic] = cluster.run(one, listener);
    last = outcome;
    if (last.exit_code != 0) break;
    for (std::size_t i = first; i < rows.size(); ++i) {
      auto& row = rows[i];
      row["emulated"] = traffic;
      if (rate <= 0) continue;
      row["link_bytes_per_second"] = rate;
      const bool whole = !row.contains("touched_rows");
      if (whole && (apart || !row.contains("servers"))) {
        row["bound_seconds"] =
            passes_of_busiest_link(row, cluster.hosts()) * row.at("bytes").get<double>() / rate;
      }
    }
  }
  return last;
}

}  // namespace tutti::lab
