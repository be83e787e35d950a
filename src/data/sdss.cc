#include "data/sdss.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "data/text_file.h"

namespace tutti::data {
namespace {

constexpr std::string_view kColumns[] = {"u", "g", "r", "i", "z", "redshift"};
constexpr std::size_t kMagnitudes = 5;
constexpr std::string_view kClasses[] = {"GALAXY", "QSO", "STAR"};
// Any number would do, but not another one later: it decides which rows are for tests.
constexpr std::uint64_t kSplitSeed = 2017;

std::vector<Field> fields_of(std::size_t features) {
  return {{"features", DType::f32, {static_cast<std::int64_t>(features)}},
          {"label", DType::i64, {}, std::size(kClasses)}};
}

struct Row {
  std::array<double, std::size(kColumns)> features{};
  std::size_t label = 0;
};

class Reader {
 public:
  Reader(const TextFile& file, std::size_t features) : file_(file), cells_(file, ',') {
    cells_.next();
    columns_ = cells_.cells().size();
    for (std::size_t f = 0; f < features; ++f) features_.push_back(find(kColumns[f]));
    label_ = find("class");
  }

  std::vector<Row> rows() {
    std::vector<Row> rows;
    while (cells_.next()) {
      cells_.expect_cells(columns_);
      Row& row = rows.emplace_back();
      for (std::size_t f = 0; f < features_.size(); ++f)
        row.features[f] = cells_.number(features_[f], kColumns[f]);
      row.label = label();
    }
    return rows;
  }

 private:
  std::size_t find(std::string_view column) const {
    const auto names = cells_.cells();
    const auto found = std::ranges::find(names, column);
    if (found == names.end()) {
      throw DataError(fmt::format("{}: line 1: there is no column {}", file_.path(), column));
    }
    return static_cast<std::size_t>(found - names.begin());
  }

  std::size_t label() const {
    const auto* const found = std::ranges::find(kClasses, cells_.cells()[label_]);
    if (found == std::end(kClasses)) {
      cells_.fail("class", fmt::format("'{}', expected GALAXY, QSO or STAR", cells_.cells()[label_]));
    }
    return static_cast<std::size_t>(found - std::begin(kClasses));
  }

  const TextFile& file_;
  CellReader cells_;
  std::size_t columns_ = 0;
  std::vector<std::size_t> features_;
  std::size_t label_ = 0;
};

std::array<std::vector<Row>, 2> split(const std::vector<Row>& rows, const std::string& file) {
  std::array<std::vector<Row>, 2> parts;
  for (std::size_t i = 0; i < rows.size(); ++i)
    parts[static_cast<std::size_t>(sdss_part(i))].push_back(rows[i]);
  if (parts[0].empty() || parts[1].empty()) {
    throw DataError(
        fmt::format("{}: line {}: the file ends after {} rows, too few for a training and a test part", file,
                    rows.size() + 1, rows.size()));
  }
  return parts;
}

struct Statistics {
  double mean = 0;
  double deviation = 1;
};

Statistics statistics_of(const std::vector<Row>& rows, std::size_t feature) {
  const auto n = static_cast<double>(rows.size());
  double sum = 0;
  for (const Row& row : rows) sum += row.features[feature];
  const double mean = sum / n;
  double squares = 0;
  for (const Row& row : rows) squares += std::pow(row.features[feature] - mean, 2);
  const double deviation = std::sqrt(squares / n);
  return {mean, deviation > 0 ? deviation : 1};
}

}  // namespace

Part sdss_part(std::uint64_t row) {
  return mix_seed({kSplitSeed, row}) % 5 == 0 ? Part::test : Part::training;
}

std::vector<Field> SdssFormat::native_fields(const PartFiles&) const {
  return fields_of(kMagnitudes);
}

bool SdssFormat::can_give(const std::vector<Field>& wanted) const {
  return wanted == fields_of(kMagnitudes) || wanted == fields_of(std::size(kColumns));
}

std::array<Words, 2> SdssFormat::read(const PartFiles& sources, const std::vector<Field>& wanted) const {
  const TextFile file(sources[Part::training].at(0));
  const std::size_t features = wanted[0].count();
  const auto parts = split(Reader(file, features).rows(), file.path());
  std::vector<Statistics> statistics;
  for (std::size_t f = 0; f < features; ++f) statistics.push_back(statistics_of(parts[0], f));
  std::array<Words, 2> words;
  for (std::size_t part = 0; part < 2; ++part) {
    for (const Row& row : parts[part]) {
      for (std::size_t f = 0; f < features; ++f) {
        const auto [mean, deviation] = statistics[f];
        words[part].add_number(static_cast<float>((row.features[f] - mean) / deviation));
      }
      words[part].add_index(row.label);
    }
  }
  return words;
}

}  // namespace tutti::data
