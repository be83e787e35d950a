#include "data/gpcr.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "data/text_file.h"

namespace tutti::data {
namespace {

constexpr std::size_t kLength = 1000;
constexpr std::size_t kClasses = 86;
constexpr std::uint32_t kUnknown = ~0U;

using LetterTable = std::array<std::uint32_t, 256>;

constexpr LetterTable make_letters() {
  LetterTable table{};
  table.fill(kUnknown);
  const auto set = [&](char letter, GpcrLetter number) {
    table[static_cast<unsigned char>(letter)] = static_cast<std::uint32_t>(number);
  };
  std::uint32_t next = 0;
  for (const char letter : kAminoAcids) set(letter, static_cast<GpcrLetter>(next++));
  for (const char letter : {'X', 'O', 'U'}) set(letter, GpcrLetter::other);
  set('B', GpcrLetter::d_or_n);
  set('Z', GpcrLetter::e_or_q);
  set('J', GpcrLetter::i_or_l);
  set('_', GpcrLetter::padding);
  return table;
}

constexpr LetterTable kLetters = make_letters();

std::size_t label_in(const CellReader& line) {
  const std::string_view text = line.cells()[0];
  std::size_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label >= kClasses) {
    line.fail("1", fmt::format("label '{}', expected a number from 0 to {}", text, kClasses - 1));
  }
  return label;
}

// Columns of errors are characters, counted from the beginning of the line.
void add_sequence(const CellReader& line, Words& words) {
  const std::string_view sequence = line.cells()[1];
  const std::size_t first_column = line.cells()[0].size() + 2;
  if (sequence.size() > kLength) {
    line.fail(fmt::format("{}", first_column + kLength),
              fmt::format("the sequence has {} letters, expected at most {}", sequence.size(), kLength));
  }
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const std::uint32_t number = kLetters[static_cast<unsigned char>(sequence[i])];
    if (number == kUnknown) {
      line.fail(fmt::format("{}", first_column + i), fmt::format("'{}' is no amino acid", sequence[i]));
    }
    words.add_index(number);
  }
  for (std::size_t i = sequence.size(); i < kLength; ++i) {
    words.add_index(static_cast<std::size_t>(GpcrLetter::padding));
  }
}

Words read_part(const std::string& path) {
  const TextFile file(path);
  CellReader line(file, '\t');
  Words words;
  while (line.next()) {
    line.expect_cells(2);
    add_sequence(line, words);
    words.add_index(label_in(line));
  }
  if (words.size() == 0) throw DataError(fmt::format("{}: line 1: there are no sequences", path));
  return words;
}

}  // namespace

std::vector<Field> GpcrFormat::native_fields(const PartFiles&) const {
  return {{"sequence", DType::i64, {kLength}, static_cast<std::int64_t>(GpcrLetter::count)},
          {"label", DType::i64, {}, kClasses}};
}

bool GpcrFormat::can_give(const std::vector<Field>& wanted) const {
  return wanted == native_fields({});
}

std::array<Words, 2> GpcrFormat::read(const PartFiles& sources, const std::vector<Field>&) const {
  return {read_part(sources[Part::training].at(0)), read_part(sources[Part::test].at(0))};
}

}  // namespace tutti::data
