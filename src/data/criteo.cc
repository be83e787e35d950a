#include "data/criteo.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "data/text_file.h"

namespace tutti::data {
namespace {

constexpr std::size_t kNumbers = 13;
constexpr std::size_t kCategories = 26;
constexpr std::int64_t kRows = 1 << 17;  // unless other rows are wanted

std::vector<Field> fields_of(std::int64_t rows) {
  return {{"numbers", DType::f32, {kNumbers}},
          {"categories", DType::i64, {kCategories}, rows},
          {"click", DType::f32, {}}};
}

float click_in(const CellReader& line) {
  const std::string_view text = line.cells()[0];
  if (text != "0" && text != "1") line.fail("1", fmt::format("label '{}', expected 0 or 1", text));
  return text == "1" ? 1.0F : 0.0F;
}

float number_in(const CellReader& line, std::size_t cell) {
  if (line.cells()[cell].empty()) return 0;
  const double value = line.number(cell, fmt::format("{}", cell + 1));
  return static_cast<float>(std::log1p(std::max(value, 0.0)));
}

Words read_part(const std::string& path, std::uint64_t rows) {
  const TextFile file(path);
  CellReader line(file, '\t');
  Words words;
  while (line.next()) {
    line.expect_cells(1 + kNumbers + kCategories);
    for (std::size_t i = 0; i < kNumbers; ++i) words.add_number(number_in(line, 1 + i));
    for (std::size_t i = 0; i < kCategories; ++i) {
      words.add_index(criteo_row(i, line.cells()[1 + kNumbers + i], rows));
    }
    words.add_number(click_in(line));
  }
  if (words.size() == 0) throw DataError(fmt::format("{}: line 1: there are no rows", path));
  return words;
}

}  // namespace

std::uint64_t criteo_row(std::size_t column, std::string_view category, std::uint64_t rows) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : category) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix_seed({column, hash}) % rows;
}

std::vector<Field> CriteoFormat::native_fields(const PartFiles&) const {
  return fields_of(kRows);
}

bool CriteoFormat::can_give(const std::vector<Field>& wanted) const {
  if (wanted.size() < 2) return false;
  const std::int64_t rows = wanted[1].below;
  return rows > 0 && rows <= std::numeric_limits<std::uint32_t>::max() && wanted == fields_of(rows);
}

std::array<Words, 2> CriteoFormat::read(const PartFiles& sources, const std::vector<Field>& wanted) const {
  const auto rows = static_cast<std::uint64_t>(wanted[1].below);
  return {read_part(sources[Part::training].at(0), rows), read_part(sources[Part::test].at(0), rows)};
}

}  // namespace tutti::data
