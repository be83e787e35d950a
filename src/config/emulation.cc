#include "config/emulation.h"

#include <charconv>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace tutti::config {
namespace {

constexpr std::uint64_t kSlowest = 1'000'000;
constexpr std::uint64_t kFastest = 100'000'000'000;

[[noreturn]] void refuse(const std::string& part, const std::string& rule) {
  throw ConfigError(fmt::format("--emulate {}: {}", part, rule));
}

int parse_host_count(const std::string& part, std::string_view text) {
  int hosts = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), hosts);
  if (error != std::errc() || at != text.data() + text.size() || hosts < 1 || hosts > kMostHosts) {
    refuse(part, fmt::format("hosts must be a number between 1 and {}", kMostHosts));
  }
  return hosts;
}

std::uint64_t parse_rate(const std::string& part, std::string_view text) {
  double number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(at, static_cast<std::size_t>(text.data() + text.size() - at));
  const double scale = unit == "kbit" ? 1e3 : unit == "mbit" ? 1e6 : unit == "gbit" ? 1e9 : 0;
  const double rate = error == std::errc() ? number * scale : 0;
  if (!(rate >= kSlowest && rate <= kFastest)) {
    refuse(part, "link must be a rate between 1mbit and 100gbit, e.g. 100mbit, 1gbit, 2.5gbit");
  }
  return static_cast<std::uint64_t>(rate);
}

}  // namespace

std::optional<Emulation> parse_emulation(const std::string& text) {
  if (text.empty()) return std::nullopt;
  Emulation emulation;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string_view view = part;
    const auto equals = std::min(view.find('='), view.size());
    const auto key = view.substr(0, equals);
    const auto value = view.substr(std::min(equals + 1, view.size()));
    if (key == "hosts") {
      emulation.hosts = parse_host_count(part, value);
    } else if (key == "link") {
      emulation.link = value;
      emulation.bits_per_second = parse_rate(part, value);
    } else {
      refuse(text, "must be hosts=N,link=RATE, e.g. hosts=6,link=1gbit");
    }
  }
  if (emulation.bits_per_second == 0) refuse(text, "the links' rate is missing, e.g. link=1gbit");
  return emulation;
}

}  // namespace tutti::config
