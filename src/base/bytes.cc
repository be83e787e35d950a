#include "base/bytes.h"

#include <charconv>

#include "base/error.h"

namespace tutti {

std::uint64_t parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "K" || unit == "KB" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "MB" || unit == "MiB") shift = 20;
  if (unit == "G" || unit == "GB" || unit == "GiB") shift = 30;
  if (err != std::errc() || shift < 0 || value > (UINT64_MAX >> shift)) {
    throw ConfigError(fmt::format("'{}' is not a size; write 4096, 64K, 4M or 1G", text));
  }
  return value << shift;
}

std::vector<std::uint64_t> parse_bytes_list(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  while (true) {
    const auto comma = text.find(',');
    sizes.push_back(parse_bytes(text.substr(0, comma)));
    if (comma == std::string_view::npos) return sizes;
    text.remove_prefix(comma + 1);
  }
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) value /= 1024.0;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace tutti
