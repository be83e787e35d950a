// Text from files: as a whole, line by line, and cell by cell.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tutti::data {

// A file's text, mapped, or decoded if it is gzipped.
class TextFile {
 public:
  // Throws DataError: unreadable, damaged, or empty.
  explicit TextFile(std::string path);

  const std::string& path() const { return path_; }
  std::string_view text() const;

 private:
  std::string path_;
  Mapping mapping_;
  std::vector<std::byte> decoded_;
};

// The lines of a text one after another, without their ends ("\n" or "\r\n").
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}
  // Takes the next line; false after the last one.
  bool next();
  std::string_view line() const { return line_; }
  std::size_t number() const { return number_; }  // from 1
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  std::string_view line_;
  std::size_t number_ = 0;
};

// A table written as text, a row a line. `file` outlives it. Empty lines at the end are no rows.
class CellReader {
 public:
  CellReader(const TextFile& file, char delimiter);
  // Takes the next row; false after the last one.
  bool next();
  std::span<const std::string_view> cells() const { return cells_; }

  // Of the row last taken. Each throws DataError with file, line and column.
  void expect_cells(std::size_t count) const;
  double number(std::size_t cell, std::string_view column) const;  // finite
  [[noreturn]] void fail(std::string_view column, const std::string& what) const;

 private:
  const TextFile& file_;
  char delimiter_;
  LineReader lines_;
  std::vector<std::string_view> cells_;
};

}  // namespace tutti::data
