#include "lab/first_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/diff.h"
#include "checkpoint/elements.h"
#include "checkpoint/safetensors.h"
#include "train/record_files.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRankUnit = "rank-";

std::string unit_of(std::size_t rank) {
  return fmt::format("{}{}", kRankUnit, rank);
}

// "gradient/rank-1/conv1.weight": stages whose keys name who has computed it.
bool has_units(std::string_view stage) {
  return stage == "gradient" || stage == "buffer";
}

// What a worker says of one stage of a step, in order; names without the stage.
struct Said {
  std::string name;
  std::string digest;
};
std::vector<Said> said_of(const RecordedStep& step, std::string_view stage) {
  std::vector<Said> said;
  for (const auto& [key, digest] : step.digests) {
    if (key.starts_with(stage) && key[stage.size()] == '/')
      said.push_back({key.substr(stage.size() + 1), digest});
  }
  return said;
}

const RecordedStep* find_step(const std::vector<RecordedStep>& steps, std::int64_t step) {
  const auto at = std::ranges::find(steps, step, &RecordedStep::step);
  return at != steps.end() ? &*at : nullptr;
}

// One step of both runs, stage by stage.
class StepPair {
 public:
  StepPair(const RecordedRun& a, const RecordedRun& b, std::int64_t step) : a_(a), b_(b), step_(step) {}

  // Whether there was anything to compare; what differs goes to `place`.
  bool compare(std::string_view stage, std::optional<Place>& place) {
    compared_ = false;
    earliest_ = SIZE_MAX;
    who_.clear();
    has_units(stage) ? compare_units(stage) : compare_ranks(stage);
    if (!who_.empty()) {
      place = Place{.step = step_, .stage = std::string(stage), .tensor = tensor_, .who = who_};
    }
    return compared_;
  }

 private:
  void compare_units(std::string_view stage) {
    std::map<std::string, std::string> others;
    for (const auto& rank : b_) {
      const auto* line = find_step(rank, step_);
      if (line == nullptr) continue;
      for (auto& [name, digest] : said_of(*line, stage)) others[name] = digest;
    }
    for (const auto& rank : a_) {
      const auto* line = find_step(rank, step_);
      if (line == nullptr) continue;
      const auto said = said_of(*line, stage);
      std::map<std::string, std::size_t> place_in_unit;
      for (const auto& [name, digest] : said) {
        const auto slash = name.find('/');
        const std::string unit = name.substr(0, slash);
        const std::size_t order = place_in_unit[unit]++;
        if (unit.starts_with(kRankUnit) && a_.size() != b_.size()) continue;
        if (const auto other = others.find(name); other != others.end()) {
          note(order, name.substr(slash + 1), unit, digest == other->second);
        }
      }
    }
  }

  void compare_ranks(std::string_view stage) {
    for (std::size_t r = 0; r < std::max(a_.size(), b_.size()); ++r) {
      const auto* mine = find_step(a_[r < a_.size() ? r : 0], step_);
      const auto* theirs = find_step(b_[r < b_.size() ? r : 0], step_);
      if (mine == nullptr || theirs == nullptr) continue;
      std::map<std::string, std::string> others;
      for (auto& [name, digest] : said_of(*theirs, stage)) others[name] = digest;
      const auto said = said_of(*mine, stage);
      for (std::size_t i = 0; i < said.size(); ++i) {
        const auto other = others.find(said[i].name);
        if (other != others.end()) note(i, said[i].name, unit_of(r), said[i].digest == other->second);
      }
    }
  }

  void note(std::size_t order, const std::string& tensor, const std::string& unit, bool same) {
    compared_ = true;
    if (same || order > earliest_) return;
    if (order < earliest_) who_.clear();
    earliest_ = order;
    tensor_ = tensor;
    who_.push_back(unit);
  }

  const RecordedRun& a_;
  const RecordedRun& b_;
  const std::int64_t step_;
  bool compared_ = false;
  std::size_t earliest_ = SIZE_MAX;  // in the model's order, of those that differ
  std::string tensor_;
  std::vector<std::string> who_;
};

std::optional<Place> difference_in(const RecordedRun& a, const RecordedRun& b, std::int64_t step) {
  StepPair pair(a, b, step);
  std::optional<Place> place;
  bool gradients = false;
  bool means = false;
  for (const auto stage : train::kRecordStages) {
    const bool compared = pair.compare(stage, place);
    if (stage == "gradient") gradients = compared;
    if (stage == "mean") means = compared;
    if (!place) continue;
    place->gradients_known = gradients;
    place->means_known = means;
    return place;
  }
  return std::nullopt;
}

// The file that has the key: that of the rank which is named, or of whoever has computed it.
std::optional<checkpoint::SafetensorsFile> file_with(const fs::path& run, const Place& place, int workers) {
  int rank = 0;
  const std::string& who = place.who.front();
  if (who.starts_with(kRankUnit))
    std::from_chars(who.data() + kRankUnit.size(), who.data() + who.size(), rank);
  if (rank >= workers) rank = 0;
  for (int i = 0; i < workers; ++i) {
    const auto path = train::record_step_path(run, place.step, (rank + i) % workers);
    if (!fs::exists(path)) continue;
    checkpoint::SafetensorsFile file(path);
    if (file.find(place.key()) != nullptr) return file;
  }
  return std::nullopt;
}

// With as many digits as tell it from its neighbours.
std::string value_text(DType type, std::span<const std::byte> element) {
  const auto only = checkpoint::statistics(type, element);
  if (only.nan > 0) return "nan";
  return type == DType::f64 ? fmt::format("{:.17g}", only.min) : fmt::format("{:.9g}", only.min);
}

}  // namespace

std::string Place::key() const {
  return has_units(stage) ? fmt::format("{}/{}/{}", stage, who.front(), tensor)
                          : fmt::format("{}/{}", stage, tensor);
}

RecordedRun read_records(const fs::path& run, int workers) {
  RecordedRun ranks;
  for (int r = 0; r < workers; ++r) {
    const auto path = train::record_digests_path(run, r);
    std::ifstream lines(path);
    if (!lines) throw DataError(fmt::format("{}: cannot be read", path.string()));
    auto& steps = ranks.emplace_back();
    try {
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        steps.push_back({json.at("step"), json.at("digests")});
      }
    } catch (const nlohmann::json::exception& e) {
      throw DataError(fmt::format("{}: no record of steps: {}", path.string(), e.what()));
    }
  }
  return ranks;
}

std::optional<Place> first_difference(const RecordedRun& a, const RecordedRun& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  for (const RecordedStep& line : a[0]) {
    auto place = difference_in(a, b, line.step);
    if (!place) continue;
    place->begins_so = line.step == a[0].front().step;
    return place;
  }
  return std::nullopt;
}

std::optional<ElementDifference> first_element(const fs::path& a, const fs::path& b, const Place& place,
                                               int workers_of_a, int workers_of_b) {
  const auto file_a = file_with(a, place, workers_of_a);
  const auto file_b = file_with(b, place, workers_of_b);
  if (!file_a || !file_b) return std::nullopt;
  return first_element(file_a->at(place.key()), file_b->at(place.key()));
}

std::optional<ElementDifference> first_element(const checkpoint::TensorView& a,
                                               const checkpoint::TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return std::nullopt;
  const auto all = checkpoint::compare(a.dtype, a.bytes, b.bytes);
  if (all.differing == 0) return std::nullopt;
  const std::size_t size = size_of(a.dtype);
  const auto at = static_cast<std::size_t>(all.first) * size;
  const auto one = checkpoint::compare(a.dtype, a.bytes.subspan(at, size), b.bytes.subspan(at, size));
  ElementDifference e{.element = all.first,
                      .index = checkpoint::place_text(all.first, a.shape),
                      .first = value_text(a.dtype, a.bytes.subspan(at, size)),
                      .second = value_text(b.dtype, b.bytes.subspan(at, size)),
                      .differing = all.differing,
                      .elements = a.elements()};
  if (one.nan == 0) e.ulps = one.max_ulps;
  return e;
}

}  // namespace tutti::lab
