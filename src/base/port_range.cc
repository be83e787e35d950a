#include "base/port_range.h"

#include <charconv>
#include <optional>

#include "base/error.h"

namespace tutti {
namespace {

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

PortRange parse_port_range(const std::string& text) {
  if (text.empty()) return {};
  const auto dash = text.find('-');
  const auto first = port_of(std::string_view(text).substr(0, dash));
  const auto last = dash == std::string::npos ? first : port_of(std::string_view(text).substr(dash + 1));
  if (!first || !last || *last < *first)
    throw ConfigError(
        fmt::format("--port-range must be FIRST-LAST, ports between 1 and 65535, not '{}'", text));
  return {*first, *last};
}

std::string text_of(PortRange range) {
  return range.any() ? "" : fmt::format("{}-{}", range.first, range.last);
}

}  // namespace tutti
