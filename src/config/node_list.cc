#include "config/node_list.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace tutti::config {
namespace {

constexpr std::size_t kMostNodes = 100'000;

[[noreturn]] void refuse(const std::string& text) {
  throw ConfigError(
      fmt::format("'{}' is no list of nodes as SLURM writes them, such as node[1-3,7],other", text));
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const auto end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

int number_of(std::string_view text, const std::string& whole) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < 0) refuse(whole);
  return number;
}

// What stands in a bracket: "08-10,20" as 08, 09, 10, 20.
std::vector<std::string> numbers_of(std::string_view bracket, const std::string& whole) {
  std::vector<std::string> numbers;
  for (const auto part : split(bracket, ',')) {
    const auto ends = split(part, '-');
    if (ends.size() > 2) refuse(whole);
    const int first = number_of(ends.front(), whole);
    const int last = number_of(ends.back(), whole);
    if (last < first || static_cast<std::size_t>(last - first) >= kMostNodes) refuse(whole);
    // As many digits as the first has: 08, 09, 10.
    for (int n = first; n <= last; ++n) numbers.push_back(fmt::format("{:0{}}", n, ends.front().size()));
  }
  return numbers;
}

// One name with its brackets, multiplied out.
void expand(const std::string& before, std::string_view name, const std::string& whole,
            std::vector<std::string>& into) {
  const auto open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.find(']') != std::string_view::npos || (before.empty() && name.empty())) refuse(whole);
    if (into.size() >= kMostNodes) refuse(whole);
    into.push_back(before + std::string(name));
    return;
  }
  const auto close = name.find(']', open);
  if (close == std::string_view::npos) refuse(whole);
  const std::string begun = before + std::string(name.substr(0, open));
  for (const auto& number : numbers_of(name.substr(open + 1, close - open - 1), whole)) {
    expand(begun + number, name.substr(close + 1), whole, into);
  }
}

}  // namespace

std::vector<std::string> parse_node_list(const std::string& text) {
  std::vector<std::string> nodes;
  std::size_t begin = 0;
  int depth = 0;
  // A comma inside a bracket separates numbers, one outside separates names.
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1 || (i == text.size() && depth != 0)) refuse(text);
    if (c != ',' || depth != 0) continue;
    expand("", std::string_view(text).substr(begin, i - begin), text, nodes);
    begin = i + 1;
  }
  return nodes;
}

}  // namespace tutti::config
