// An emulated cluster as people name it: "hosts=6,link=1gbit".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::config {

inline constexpr int kMostHosts = 250;

inline constexpr const char* kEmulateHelp =
    "hosts=N,link=RATE runs the processes on N emulated hosts (default: one for each), dealt in turn, with "
    "links "
    "of 100mbit, 1gbit, ...; needs root";

struct Emulation {
  int hosts = 0;     // 0: one for each process
  std::string link;  // as it was said
  std::uint64_t bits_per_second = 0;
};

// Nothing for an empty text. Throws ConfigError that names --emulate.
std::optional<Emulation> parse_emulation(const std::string& text);

}  // namespace tutti::config
