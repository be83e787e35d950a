#include "data/format.h"

#include <fmt/ranges.h>

namespace tutti::data {

void PlainFiles::add(Part part, PlainFile file) {
  files[part].push_back(std::move(file.path));
  if (file.keep_open) keep_open.push_back(std::move(file.keep_open));
}

std::string text_of(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& f : fields) {
    if (!text.empty()) text += ", ";
    text += f.name;
    if (!f.shape.empty()) text += fmt::format(" {}", fmt::join(f.shape, "x"));
    if (f.below > 0) text += fmt::format(" below {}", f.below);
  }
  return text;
}

}  // namespace tutti::data
