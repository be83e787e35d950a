// What protects the messages of a TCP connection after its handshake, and under which keys
// (docs/decisions/0022-frames-carry-a-tag.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto.h"

namespace tutti::net {

enum class Wire : std::uint32_t {
  plain,    // nothing: for ranks of one host
  auth,     // a tag on every frame: what was changed, repeated, left out or moved on the way is found
  encrypt,  // the same, and nobody on the way can read it
};

// "plain", "auth", "encrypt"; of a number that is none of them, "?".
std::string_view name_of(Wire wire);

// A setting's word: nothing for "auto". Throws ConfigError.
std::optional<Wire> parse_wire(std::string_view word);

// Where a job's connections go.
enum class Reach {
  one_host,        // loopback alone
  emulated_hosts,  // as hosts do, but nothing leaves this machine
  hosts,
};

// What they get: `asked`, or by default auth between hosts and plain within one. Throws ConfigError where
// plain is asked for between hosts that are not emulated.
Wire resolve_wire(std::optional<Wire> asked, Reach reach);

// Whether an address, in digits, is reached from its own host alone.
bool is_loopback(const std::string& address);

// Of one connection, by the end that has them: one key a direction, both made from the handshake
// (net/auth.h).
struct SessionKeys {
  Digest sending{};
  Digest receiving{};
};

}  // namespace tutti::net
