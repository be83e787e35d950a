#include "report/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::report {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StudyTable, title, header, rows)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Line, name, points, reference)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Chart, title, x, y, lines)

// NOLINTBEGIN(misc-use-internal-linkage): found by nlohmann::json
void to_json(nlohmann::json& json, const Claim& c) {
  json = {{"text", c.text}, {"reported", c.reported}, {"ours", c.ours}, {"holds", nullptr}};
  if (c.holds) json["holds"] = *c.holds;
}

void from_json(const nlohmann::json& json, Claim& c) {
  json.at("text").get_to(c.text);
  json.at("reported").get_to(c.reported);
  json.at("ours").get_to(c.ours);
  const auto& holds = json.at("holds");
  c.holds = holds.is_null() ? std::nullopt : std::optional(holds.get<bool>());
}
// NOLINTEND(misc-use-internal-linkage)

namespace {

// As many digits as say something.
std::string say(const nlohmann::json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  if (!value.is_number()) return value.dump();
  const double number = value.get<double>();
  const double size = std::abs(number);
  return fmt::format("{:.{}f}", number, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4);
}

// Characters, not bytes: titles have en dashes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return left ? text + space : space + text;
}

std::string render(const StudyTable& table) {
  std::vector<std::vector<std::string>> rows = {table.header};
  for (const auto& row : table.rows) {
    rows.emplace_back();
    for (const auto& value : row) rows.back().push_back(say(value));
  }
  std::vector<std::size_t> widths(table.header.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text = table.title + "\n";
  for (const auto& row : rows) {
    text += " ";
    for (std::size_t i = 0; i < row.size(); ++i) text += " " + padded(row[i], widths[i], i == 0) + " ";
    text += "\n";
  }
  return text;
}

}  // namespace

void to_json(nlohmann::json& json, const StudyResult& r) {
  json = {{"study", r.study},   {"title", r.title},   {"ran", r.ran},      {"quick", r.quick},
          {"claims", r.claims}, {"tables", r.tables}, {"charts", r.charts}};
}

void from_json(const nlohmann::json& json, StudyResult& r) {
  json.at("study").get_to(r.study);
  json.at("title").get_to(r.title);
  json.at("ran").get_to(r.ran);
  json.at("quick").get_to(r.quick);
  json.at("claims").get_to(r.claims);
  json.at("tables").get_to(r.tables);
  json.at("charts").get_to(r.charts);
}

std::string_view word_for(const std::optional<bool>& holds) {
  if (!holds) return "not measured";
  return *holds ? "confirmed" : "not confirmed";
}

std::string render(const StudyResult& r) {
  std::string text = fmt::format("{}{}\n{}\n", r.title, r.quick ? " (quick: a part of its runs)" : "", r.ran);
  for (const StudyTable& table : r.tables) text += "\n" + render(table);
  text += "\nClaims\n";
  for (const Claim& c : r.claims) {
    text += fmt::format("  {:<13}  {}\n", word_for(c.holds), c.text);
    if (!c.reported.empty()) text += fmt::format("{:17}they: {}\n", "", c.reported);
    if (!c.ours.empty()) text += fmt::format("{:17}ours: {}\n", "", c.ours);
  }
  return text;
}

}  // namespace tutti::report
