#include "report/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "observe/event.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;
using observe::StepDone;

constexpr std::size_t kMostPoints = 400;  // of a curve

// Calls `use` with each line's object; returns how many lines were none.
template <typename Use>
std::int64_t for_each_object(const fs::path& path, const Use& use) {
  std::ifstream file(path);
  std::int64_t damaged = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    try {
      json.is_object() ? use(json) : void(++damaged);
    } catch (const nlohmann::json::exception&) {
      ++damaged;
    }
  }
  return damaged;
}

// Every so many lines are one point.
std::size_t stride(std::size_t lines, std::size_t points = kMostPoints) {
  return std::max<std::size_t>(1, (lines + points - 1) / points);
}

// The loss as means over neighbouring steps; one that is no number belongs to a step that was skipped.
nlohmann::json curve_of(const std::vector<StepDone>& steps) {
  nlohmann::json curve = {{"step", nlohmann::json::array()},
                          {"seconds", nlohmann::json::array()},
                          {"loss", nlohmann::json::array()}};
  const std::size_t each = stride(steps.size());
  double seconds = 0;
  for (std::size_t i = 0; i < steps.size();) {
    const std::size_t end = std::min(i + each, steps.size());
    double loss = 0;
    double count = 0;
    for (; i < end; ++i) {
      seconds += steps[i].step_ms / 1000;
      if (!std::isfinite(steps[i].loss)) continue;
      loss += steps[i].loss;
      ++count;
    }
    if (count == 0) continue;
    curve["step"].push_back(steps[end - 1].step);
    curve["seconds"].push_back(seconds);
    curve["loss"].push_back(loss / count);
  }
  return curve;
}

nlohmann::json anatomy_of(const std::vector<StepDone>& steps) {
  double compute = 0;
  double exposed = 0;
  double hidden = 0;
  double waiting = 0;
  const auto count = static_cast<double>(steps.size());
  for (const StepDone& s : steps) {
    compute += s.compute_ms / count;
    exposed += s.exposed_exchange_ms / count;
    hidden += std::max(0.0, s.exchange_ms - s.exposed_exchange_ms) / count;
    waiting += std::max(0.0, s.step_ms - s.compute_ms - s.exposed_exchange_ms) / count;
  }
  return {{"compute", compute}, {"exposed", exposed}, {"hidden", hidden}, {"waiting", waiting}};
}

nlohmann::json read_node(const fs::path& path, std::size_t points) {
  nlohmann::json node;
  std::vector<nlohmann::json> samples;
  for_each_object(path, [&](const nlohmann::json& line) {
    if (line.contains("rank")) {
      node = line;  // a run that was resumed has said it twice
    } else {
      (void)line.at("time").get<double>();
      samples.push_back(line);
    }
  });
  if (node.is_null() || samples.empty()) return nullptr;
  for (const char* key : {"time", "cpu_seconds", "resident_bytes"}) node[key] = nlohmann::json::array();
  node["interfaces"] = nlohmann::json::object();
  node["gpus"] = nlohmann::json::array();
  const std::size_t each = stride(samples.size(), std::min(points, kMostPoints));
  for (std::size_t i = 0; i < samples.size(); i += each) {
    const auto& s = samples[i];
    for (const char* key : {"time", "cpu_seconds", "resident_bytes"})
      node[key].push_back(s.value(key, nlohmann::json()));
    // What comes later than others begins with nothing.
    const auto append = [&](nlohmann::json& series, const nlohmann::json& value) {
      while (series.size() + 1 < node["time"].size()) series.push_back(nullptr);
      series.push_back(value);
    };
    const auto interfaces = s.value("interfaces", nlohmann::json::object());
    for (const auto& [name, counters] : interfaces.items()) {
      for (const auto& [counter, value] : counters.items()) append(node["interfaces"][name][counter], value);
    }
    const auto gpus = s.value("gpus", nlohmann::json::array());
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      for (const char* key : {"utilisation", "memory_bytes"})
        append(node["gpus"][g][key], gpus[g].value(key, nlohmann::json()));
    }
  }
  return node;
}

}  // namespace

nlohmann::json read_metrics(const fs::path& run_folder) {
  const auto path = run_folder / "metrics.jsonl";
  if (!fs::is_regular_file(path)) return nullptr;
  std::vector<StepDone> steps;
  nlohmann::json metrics = {{"evaluations", nlohmann::json::array()}};
  double seconds = 0;
  metrics["damaged_lines"] = for_each_object(path, [&](const nlohmann::json& line) {
    const auto event = observe::from_json(line);
    if (const auto* step = std::get_if<StepDone>(&event)) {
      steps.push_back(*step);
      seconds += step->step_ms / 1000;
    } else if (const auto* e = std::get_if<observe::Evaluated>(&event)) {
      nlohmann::json evaluation = e->figures;
      evaluation.update({{"step", e->step}, {"seconds", seconds}});
      metrics["evaluations"].push_back(std::move(evaluation));
    } else if (const auto* start = std::get_if<observe::RunStarted>(&event)) {
      metrics["exchange"] = start->exchange;
    }
  });
  metrics["steps"] = curve_of(steps);
  if (!steps.empty()) metrics["anatomy"] = anatomy_of(steps);
  return metrics;
}

nlohmann::json read_nodes(const fs::path& run_folder, std::size_t points) {
  std::vector<nlohmann::json> nodes;
  for (const auto& entry : fs::directory_iterator(run_folder)) {
    if (!entry.path().filename().string().starts_with("samples-rank-")) continue;
    if (auto node = read_node(entry.path(), points); !node.is_null()) nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, std::less(), [](const auto& n) { return n.value("rank", 0); });
  double began = std::numeric_limits<double>::max();
  for (const auto& n : nodes) began = std::min(began, n["time"][0].template get<double>());
  for (auto& n : nodes) {
    for (const auto& t : n["time"]) n["seconds"].push_back(t.template get<double>() - began);
    n.erase("time");
  }
  return nodes;
}

}  // namespace tutti::report
