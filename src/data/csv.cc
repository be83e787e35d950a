#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "data/own_data.h"
#include "data/text_file.h"

namespace tutti::data {
namespace {

// More different texts than this are names rather than categories.
constexpr std::size_t kMostCategories = 1000;
constexpr std::size_t kMostClasses = 100'000;

// A number that a float can hold.
std::optional<double> as_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) return std::nullopt;
  return value;
}

// A file's cells, all of them, with the places they came from.
class Table {
 public:
  explicit Table(const std::string& path) : file_(path) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    std::string_view text = file_.text();
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    LineReader lines(text);
    while (lines.next()) {
      if (lines.line().empty()) continue;
      auto cells = split(lines.line(), lines.number());
      if (header_.empty()) {
        header_ = std::move(cells);
        continue;
      }
      if (cells.size() != header_.size()) {
        throw DataError(fmt::format("{}: line {}: it has {} cells, the header {}", path, lines.number(),
                                    cells.size(), header_.size()));
      }
      rows_.push_back({lines.number(), std::move(cells)});
    }
    if (rows_.empty()) throw DataError(fmt::format("{}: line 1: there are no rows behind the header", path));
  }

  struct Row {
    std::size_t line = 0;
    std::vector<std::string> cells;
  };
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<std::string>& header() const { return header_; }

  // Throws DataError that lists those there are.
  std::size_t column(const std::string& name) const {
    const auto found = std::ranges::find(header_, name);
    if (found == header_.end()) {
      throw DataError(fmt::format("{}: line 1: there is no column '{}'; there are: {}", file_.path(), name,
                                  fmt::join(header_, ", ")));
    }
    return static_cast<std::size_t>(found - header_.begin());
  }

  [[noreturn]] void fail(const Row& row, std::size_t column, const std::string& what) const {
    throw DataError(fmt::format("{}: line {}, column {}: {}", file_.path(), row.line, header_[column], what));
  }
  [[noreturn]] void fail(std::size_t column, const std::string& what) const {
    throw DataError(fmt::format("{}: column {}: {}", file_.path(), header_[column], what));
  }

 private:
  std::vector<std::string> split(std::string_view line, std::size_t number) const {
    std::vector<std::string> cells(1);
    bool quoted = false;
    bool was_quoted = false;  // what is quoted keeps its blanks
    const auto end_cell = [&] {
      if (!was_quoted) cells.back().erase(cells.back().find_last_not_of(" \t") + 1);
      was_quoted = false;
    };
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back() += line[++i];
      } else if (c == '"' && (quoted || cells.back().empty())) {
        quoted = !quoted;
        was_quoted = true;
      } else if (c == ',' && !quoted) {
        end_cell();
        cells.emplace_back();
      } else if (quoted || !cells.back().empty() || (c != ' ' && c != '\t')) {
        cells.back() += c;
      }
    }
    end_cell();
    if (quoted) throw DataError(fmt::format("{}: line {}: a quoted cell does not end", file_.path(), number));
    return cells;
  }

  TextFile file_;
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

using Rows = std::vector<const Table::Row*>;

// How the cells of a column become features.
struct Column {
  std::size_t place = 0;
  bool number = true;
  double mean = 0;
  double deviation = 1;
  std::map<std::string, std::size_t> categories = {};  // with the place of each among them

  std::size_t width() const { return number ? 1 : categories.size(); }
};

Column learn_column(const Table& table, const Rows& rows, std::size_t place) {
  Column column{.place = place};
  std::vector<double> numbers;
  const Table::Row* no_number = nullptr;
  for (const auto* row : rows) {
    const std::string& cell = row->cells[place];
    if (cell.empty())
      table.fail(*row, place, "the cell is empty; fill it, or leave the row or the column out");
    if (const auto value = as_number(cell)) {
      numbers.push_back(*value);
    } else if (no_number == nullptr) {
      no_number = row;
    }
  }
  column.number = no_number == nullptr;
  if (column.number) {
    const auto n = static_cast<double>(numbers.size());
    column.mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / n;
    double squares = 0;
    for (const double x : numbers) squares += (x - column.mean) * (x - column.mean);
    const auto [least, most] = std::ranges::minmax(numbers);
    column.deviation = least < most ? std::sqrt(squares / n) : 1;
    return column;
  }
  // A few texts among numbers are gaps (NA, ?), not categories.
  if (numbers.size() * 2 > rows.size()) {
    table.fail(*no_number, place,
               fmt::format("'{}' is no number, as most of the column are", no_number->cells[place]));
  }
  for (const auto* row : rows) column.categories.emplace(row->cells[place], 0);
  if (column.categories.size() > kMostCategories) {
    table.fail(place,
               fmt::format("{} different texts are too many for categories; leave it out by --features",
                           column.categories.size()));
  }
  std::size_t next = 0;
  for (auto& [text, number] : column.categories) number = next++;
  return column;
}

// Classes by their texts: whole numbers in their order, others by the alphabet.
std::map<std::string, std::size_t> learn_classes(const Table& table, const Rows& rows, std::size_t place) {
  std::map<std::string, double> found;
  bool whole = true;
  for (const auto* row : rows) {
    const std::string& cell = row->cells[place];
    if (cell.empty()) table.fail(*row, place, "the label is empty");
    const auto value = as_number(cell);
    if (value && *value != std::floor(*value)) {
      table.fail(*row, place, fmt::format("'{}' is no class; a label is a text or a whole number", cell));
    }
    whole = whole && value.has_value();
    found.emplace(cell, value.value_or(0));
  }
  if (found.size() < 2) {
    table.fail(place, fmt::format("all rows have the label '{}': there is nothing to tell apart",
                                  found.begin()->first));
  }
  if (found.size() > kMostClasses)
    table.fail(place, fmt::format("{} different labels are too many", found.size()));
  std::vector<std::string> classes;
  for (const auto& [text, value] : found) classes.push_back(text);
  if (whole) std::ranges::stable_sort(classes, {}, [&](const std::string& c) { return found[c]; });
  std::map<std::string, std::size_t> numbered;
  for (std::size_t i = 0; i < classes.size(); ++i) numbered.emplace(classes[i], i);
  return numbered;
}

// What is known of a table once its training part has been seen.
struct Scheme {
  std::vector<Column> columns;
  std::size_t label = 0;
  std::map<std::string, std::size_t> classes;  // with their numbers

  std::size_t features() const {
    std::size_t n = 0;
    for (const Column& c : columns) n += c.width();
    return n;
  }
};

class Reader {
 public:
  Reader(const PartFiles& sources, const CsvColumns& wanted, double test_share)
      : training_(sources[Part::training].at(0)) {
    if (!wanted.label.empty()) training_.column(wanted.label);
    for (const auto& name : wanted.features) training_.column(name);
    for (std::size_t i = 0; i < training_.rows().size(); ++i) {
      const bool split = sources[Part::test].empty();
      rows_[static_cast<std::size_t>(split ? part_of(i, test_share) : Part::training)].push_back(
          &training_.rows()[i]);
    }
    if (!sources[Part::test].empty()) {
      test_.emplace(sources[Part::test].at(0));
      if (test_->header() != training_.header()) {
        throw DataError(fmt::format("{}: line 1: its columns are not those of {}", sources[Part::test].at(0),
                                    sources[Part::training].at(0)));
      }
      for (const auto& row : test_->rows()) rows_[1].push_back(&row);
    }
    for (const auto& part : rows_) {
      if (part.empty()) {
        throw DataError(fmt::format("{}: {} rows are too few for a training and a test part",
                                    sources[Part::training].at(0), training_.rows().size()));
      }
    }
    learn(wanted);
  }

  const Scheme& scheme() const { return scheme_; }

  Words words(Part part) const {
    const Table& table = part == Part::test && test_ ? *test_ : training_;
    Words words;
    for (const auto* row : rows_[static_cast<std::size_t>(part)]) {
      for (const Column& c : scheme_.columns) add(words, table, *row, c);
      const auto found = scheme_.classes.find(row->cells[scheme_.label]);
      if (found == scheme_.classes.end()) {
        table.fail(*row, scheme_.label,
                   fmt::format("no row of the training part has the label '{}'", row->cells[scheme_.label]));
      }
      words.add_index(found->second);
    }
    return words;
  }

 private:
  void learn(const CsvColumns& wanted) {
    const auto& header = training_.header();
    scheme_.label = wanted.label.empty() ? header.size() - 1 : training_.column(wanted.label);
    // Of one file all labels are known, whichever part their rows have come to.
    Rows all;
    for (const auto& row : training_.rows()) all.push_back(&row);
    scheme_.classes = learn_classes(training_, all, scheme_.label);
    std::vector<std::size_t> places;
    for (const auto& name : wanted.features) places.push_back(training_.column(name));
    for (std::size_t i = 0; wanted.features.empty() && i < header.size(); ++i) {
      if (i != scheme_.label) places.push_back(i);
    }
    if (places.empty()) training_.fail(scheme_.label, "there is no other column to learn it from");
    for (const std::size_t place : places) {
      if (place == scheme_.label) training_.fail(place, "it is the label, and cannot be learned from");
      scheme_.columns.push_back(learn_column(training_, rows_[0], place));
    }
  }

  static void add(Words& words, const Table& table, const Table::Row& row, const Column& column) {
    const std::string& cell = row.cells[column.place];
    if (column.number) {
      const auto value = as_number(cell);
      if (!value)
        table.fail(row, column.place,
                   fmt::format("'{}' is no number, as those of the training part are", cell));
      const double standard = (*value - column.mean) / column.deviation;
      if (std::abs(standard) > std::numeric_limits<float>::max()) {
        table.fail(row, column.place, fmt::format("'{}' is too far from the others", cell));
      }
      return words.add_number(static_cast<float>(standard));
    }
    // A text that the training part does not have is none of its categories.
    const auto found = column.categories.find(cell);
    for (std::size_t i = 0; i < column.categories.size(); ++i) {
      words.add_number(found != column.categories.end() && found->second == i ? 1.0F : 0.0F);
    }
  }

  Table training_;
  std::optional<Table> test_;
  std::array<Rows, 2> rows_;  // by part
  Scheme scheme_;
};

std::vector<Field> fields_of(const Scheme& scheme) {
  return {{"features", DType::f32, {static_cast<std::int64_t>(scheme.features())}},
          {"label", DType::i64, {}, static_cast<std::int64_t>(scheme.classes.size())}};
}

}  // namespace

std::vector<Field> CsvFormat::native_fields(const PartFiles& sources) const {
  if (sources[Part::training].empty()) return {};
  return fields_of(Reader(sources, columns_, test_share_).scheme());
}

bool CsvFormat::can_give(const std::vector<Field>& wanted) const {
  return wanted.size() == 2 && wanted[0].type == DType::f32 && wanted[0].shape.size() == 1 &&
         wanted[1].name == "label" && wanted[1].shape.empty();
}

std::vector<std::string> CsvFormat::names(const PartFiles& sources) const {
  const Reader reader(sources, columns_, test_share_);
  std::vector<std::string> texts(reader.scheme().classes.size());
  for (const auto& [text, number] : reader.scheme().classes) texts[number] = text;
  return texts;
}

std::array<Words, 2> CsvFormat::read(const PartFiles& sources, const std::vector<Field>& wanted) const {
  const Reader reader(sources, columns_, test_share_);
  const auto native = fields_of(reader.scheme());
  if (wanted[0].shape != native[0].shape || wanted[1].below < native[1].below) {
    throw ConfigError(fmt::format("{} has {}; it cannot be given as {}", sources[Part::training].at(0),
                                  text_of(native), text_of(wanted)));
  }
  return {reader.words(Part::training), reader.words(Part::test)};
}

namespace {

DatasetInfo csv_dataset(std::string_view path, const OwnDataOptions& options) {
  std::vector<OwnFile> files = {{std::string(path)}};
  if (!options.test_file.empty()) files.push_back({options.test_file, Part::test});
  return own_dataset(
      "csv:" + std::string(path), "a table of your own", files,
      std::make_shared<CsvFormat>(CsvColumns{options.label, options.features}, options.test_share));
}

}  // namespace

OwnDataKind csv_data() {
  return {"csv:", "csv:FILE", "a table with a header (--label, --features)", csv_dataset};
}

}  // namespace tutti::data
