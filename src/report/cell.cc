#include "report/cell.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::report {
namespace {

double speed_of(const nlohmann::json& summary) {
  return summary.at("samples_per_second").get<double>();
}

}  // namespace

double speed(const Cell& cell) {
  return speed_of(cell.summary);
}

std::vector<double> speeds(const Cell& cell) {
  std::vector<double> all;
  for (const Repeat& r : cell.repeats) {
    if (!r.summary.is_null()) all.push_back(speed_of(r.summary));
  }
  std::ranges::sort(all);
  return all;
}

std::string label_of(const Cell& cell) {
  return cell.variant.empty() ? cell.strategy : fmt::format("{}, {}", cell.strategy, cell.variant);
}

std::string name_of(const Cell& cell) {
  return fmt::format("{} at {} worker{}", label_of(cell), cell.workers, cell.workers == 1 ? "" : "s");
}

void take_median_repeat(Cell& cell) {
  const auto all = speeds(cell);
  if (all.empty()) return;
  const double median = all[(all.size() - 1) / 2];
  const auto middle = std::ranges::find_if(
      cell.repeats, [&](const Repeat& r) { return !r.summary.is_null() && speed_of(r.summary) == median; });
  cell.folder = middle->folder;
  cell.summary = middle->summary;
}

void to_json(nlohmann::json& json, const Cell& c) {
  auto repeats = nlohmann::json::array();
  for (const Repeat& r : c.repeats) {
    if (!r.summary.is_null())
      repeats.push_back({{"folder", r.folder}, {"samples_per_second", speed_of(r.summary)}});
  }
  json = {{"model", c.model},     {"strategy", c.strategy}, {"variant", c.variant},
          {"workers", c.workers}, {"folder", c.folder},     {"summary", c.summary},
          {"failure", c.failure}, {"doubt", c.doubt},       {"repeats", repeats}};
}

void from_json(const nlohmann::json& json, Cell& c) {
  json.at("strategy").get_to(c.strategy);
  json.at("workers").get_to(c.workers);
  json.at("folder").get_to(c.folder);
  json.at("failure").get_to(c.failure);
  c.summary = json.at("summary");
  c.model = json.value("model", std::string());
  c.variant = json.value("variant", std::string());
  c.doubt = json.value("doubt", std::string());
  for (const auto& r : json.value("repeats", nlohmann::json::array())) {
    c.repeats.push_back({r.at("folder"), {{"samples_per_second", r.at("samples_per_second").get<double>()}}});
  }
}

}  // namespace tutti::report
