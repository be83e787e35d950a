// A table in plain text, columns as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace tutti::checkpoint {

class TextTable {
 public:
  struct Column {
    std::string title;
    bool right = false;  // aligned to the right
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }  // one cell a column
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tutti::checkpoint
