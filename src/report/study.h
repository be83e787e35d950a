// What a reproduction of a study has shown: its tables and figures beside ours, and its claims held against
// them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::report {

struct StudyTable {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<nlohmann::json>> rows;  // numbers, texts, and null where there is none
};

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool reference = false;  // theirs, or what theory says
};

struct Chart {
  std::string title;
  std::string x;
  std::string y;
  std::vector<Line> lines;
};

struct Claim {
  std::string text;
  std::string reported;  // by the study
  std::string ours;
  std::optional<bool> holds;  // nothing: not measured
};

struct StudyResult {
  std::string study;  // its name
  std::string title = {};
  std::string ran = {};  // what it ran, and what we run in its place
  bool quick = false;
  std::vector<Claim> claims = {};
  std::vector<StudyTable> tables = {};
  std::vector<Chart> charts = {};
};

// As study.json has it; and back. from_json throws nlohmann::json::exception.
void to_json(nlohmann::json& json, const StudyResult& result);
void from_json(const nlohmann::json& json, StudyResult& result);

// "confirmed", "not confirmed" or "not measured".
std::string_view word_for(const std::optional<bool>& holds);

// Claims and tables in plain text.
std::string render(const StudyResult& result);

}  // namespace tutti::report
