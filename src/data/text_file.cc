#include "data/text_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "data/gzip.h"

namespace tutti::data {
namespace {

constexpr std::size_t kTextLimit = std::size_t{4} << 30;  // decoded

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view without_empty_lines_at_the_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of("\r\n") + 1);
}

}  // namespace

TextFile::TextFile(std::string path) : path_(std::move(path)), mapping_(map_file(path_)) {
  if (is_gzip(mapping_.bytes())) decoded_ = decode_gzip(mapping_.bytes(), path_, kTextLimit);
  if (text().empty()) throw DataError(fmt::format("{}: line 1: the file is empty", path_));
}

std::string_view TextFile::text() const {
  return is_gzip(mapping_.bytes()) ? as_text(decoded_) : as_text(mapping_.bytes());
}

bool LineReader::next() {
  if (rest_.empty()) return false;
  const std::size_t end = rest_.find('\n');
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  ++number_;
  return true;
}

CellReader::CellReader(const TextFile& file, char delimiter)
    : file_(file), delimiter_(delimiter), lines_(without_empty_lines_at_the_end(file.text())) {}

bool CellReader::next() {
  cells_.clear();
  if (!lines_.next()) return false;
  std::string_view rest = lines_.line();
  while (true) {
    const std::size_t end = rest.find(delimiter_);
    cells_.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) return true;
    rest.remove_prefix(end + 1);
  }
}

void CellReader::expect_cells(std::size_t count) const {
  if (cells_.size() == count) return;
  fail(fmt::format("{}", std::min(cells_.size(), count) + 1),
       fmt::format("the line has {} cells, expected {}", cells_.size(), count));
}

double CellReader::number(std::size_t cell, std::string_view column) const {
  const std::string_view text = cells_[cell];
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    fail(column, fmt::format("'{}', expected a number", text));
  }
  return value;
}

void CellReader::fail(std::string_view column, const std::string& what) const {
  throw DataError(fmt::format("{}: line {}, column {}: {}", file_.path(), lines_.number(), column, what));
}

}  // namespace tutti::data
