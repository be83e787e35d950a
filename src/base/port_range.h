// Ports that a process may listen on.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

// From `first` to `last`, both included; 0 to 0 is any port that the system has free.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool any() const { return last == 0; }
  bool operator==(const PortRange&) const = default;
};

// "20000-20099" or "20000"; any for an empty text. Throws ConfigError that says what it must be.
PortRange parse_port_range(const std::string& text);

// As parse_port_range() reads it.
std::string text_of(PortRange range);

}  // namespace tutti
