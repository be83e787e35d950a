#include "config/flip_bit.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tutti::config {
namespace {

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = 0; colon != std::string_view::npos;) {
    colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon == std::string_view::npos ? text.size() : colon + 1);
  }
  return parts;
}

template <typename T>
bool read(std::string_view text, T& number) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end && number >= 0;
}

}  // namespace

std::optional<FlipBit> parse_flip_bit(const TrainConfig& c) {
  if (c.flip_bit.empty()) return std::nullopt;
  const auto parts = parts_of(c.flip_bit);
  const bool has_site = parts.size() == 6;
  FlipBit flip;
  const bool read_all = (has_site || parts.size() == 5) && read(parts[0], flip.rank) &&
                        read(parts[1], flip.step) && !parts[2].empty() && read(parts[3], flip.element) &&
                        read(parts[4], flip.bit) &&
                        (!has_site || parts[5] == "gradient" || parts[5] == "mean");
  if (!read_all || flip.rank >= c.workers || flip.step < 1 || flip.bit > 31) {
    throw ConfigError(
        fmt::format("--flip-bit must be RANK:STEP:TENSOR:ELEMENT:BIT, or that with :gradient "
                    "or :mean, with a rank below {}, a step from 1 and a bit below 32, not {}",
                    c.workers, c.flip_bit));
  }
  flip.tensor = parts[2];
  if (has_site && parts[5] == "gradient") flip.site = FlipBit::Site::gradient;
  return flip;
}

}  // namespace tutti::config
