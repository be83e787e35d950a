#include "collectives/choose.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace tutti::collectives {
namespace {

// On a 10 Gbit/s link 32 KiB take 26 us, about what a TCP message costs before its first byte arrives. A
// round that moves less is spent waiting, and fewer rounds are better; one that moves more is spent sending,
// and less traffic is.
constexpr std::uint64_t kLatencyBytes = std::uint64_t{32} * 1024;

constexpr Algorithm kAlgorithms[] = {Algorithm::ring, Algorithm::direct, Algorithm::halving_doubling,
                                     Algorithm::tree};

bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce;
}

Choice choose_on_network(Operation operation, std::uint64_t bytes, int world) {
  if (operation == Operation::barrier) {
    return {Algorithm::halving_doubling,
            fmt::format("a barrier moves no data: fewest rounds for {} ranks", world)};
  }
  // A ring moves one rank's part in a round; so does each link of a chain, nearly.
  const bool small = bytes / static_cast<std::uint64_t>(world) < kLatencyBytes;
  const std::string each = fmt::format("{} over {} ranks", human_bytes(bytes), world);
  if (!small) {
    return {Algorithm::ring,
            each + (has_root(operation) ? " is bandwidth-bound: pieces follow each other in a chain"
                                        : " is bandwidth-bound: least traffic, neighbours only")};
  }
  const bool whole = operation == Operation::all_reduce && bytes <= kTinyBytes;
  return {has_root(operation) ? Algorithm::tree : Algorithm::halving_doubling,
          each + (whole ? " is latency-bound: log2 N rounds" : " is latency-bound: log2 N rounds each way")};
}

}  // namespace

Choice choose(Operation operation, std::uint64_t bytes, int world, Medium medium) {
  TUTTI_CHECK(world >= 1, "world {}", world);
  if (world == 1) return {Algorithm::direct, "one rank alone: nothing to exchange"};
  if (medium == Medium::memory) return {Algorithm::direct, "shared memory: one pass over everyone's buffers"};
  if (world == 2) return {Algorithm::direct, "two ranks: a ring's traffic in the fewest rounds"};
  return choose_on_network(operation, bytes, world);
}

std::optional<Algorithm> parse_algorithm(std::string_view text) {
  if (text == "auto") return std::nullopt;
  const auto* const found =
      std::ranges::find_if(kAlgorithms, [&](Algorithm a) { return name_of(a) == text; });
  if (found != std::ranges::end(kAlgorithms)) return *found;
  std::string names = "auto";
  for (const Algorithm a : kAlgorithms) names += fmt::format(", {}", name_of(a));
  throw ConfigError(fmt::format("no algorithm is called '{}'; there are {}", text, names));
}

}  // namespace tutti::collectives
