#include "net/wire.h"

#include <arpa/inet.h>

#include <array>

#include "base/error.h"

namespace tutti::net {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"plain", "auth", "encrypt"};

}  // namespace

std::string_view name_of(Wire wire) {
  const auto i = static_cast<std::size_t>(wire);
  return i < kNames.size() ? kNames[i] : "?";
}

std::optional<Wire> parse_wire(std::string_view word) {
  if (word == "auto") return std::nullopt;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (word == kNames[i]) return static_cast<Wire>(i);
  }
  throw ConfigError(fmt::format("--wire must be auto, auth, encrypt or plain, not {}", word));
}

Wire resolve_wire(std::optional<Wire> asked, Reach reach) {
  if (asked == Wire::plain && reach == Reach::hosts)
    throw ConfigError("--wire must be auth or encrypt between hosts, not plain");
  return asked.value_or(reach == Reach::one_host ? Wire::plain : Wire::auth);
}

bool is_loopback(const std::string& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace tutti::net
