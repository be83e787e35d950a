#include "checkpoint/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::checkpoint {

std::string TextTable::text() const {
  std::vector<std::vector<std::string>> lines{{}};
  for (const auto& column : columns_) lines[0].push_back(column.title);
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::string out;
  std::vector<std::size_t> width(columns_.size());
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < width.size(); ++c) width[c] = std::max(width[c], line[c].size());
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < width.size(); ++c) {
      if (c > 0) text += "  ";
      text += columns_[c].right ? fmt::format("{:>{}}", line[c], width[c])
                                : fmt::format("{:<{}}", line[c], width[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

}  // namespace tutti::checkpoint
