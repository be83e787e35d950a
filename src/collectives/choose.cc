#include "collectives/choose.h"

#include "base/bytes.h"
#include "base/error.h"

namespace tutti::collectives {
namespace {

// On a 10 Gbit/s link 32 KiB take 26 us, about what a TCP message costs before its first byte arrives. A
// round that moves less is spent waiting, and fewer rounds are better; one that moves more is spent sending,
// and less traffic is.
constexpr std::uint64_t kLatencyBytes = std::uint64_t{32} * 1024;

bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce;
}

Choice choose_in_place(const Call& call) {
  if (serves(Algorithm::one_shot, call)) {
    return {Algorithm::one_shot, fmt::format("shared memory, {}: everyone reads all of it after one wait",
                                             human_bytes(call.bytes))};
  }
  if (serves(Algorithm::one_pass, call)) {
    return {Algorithm::one_pass, "shared memory: one pass over everyone's buffers"};
  }
  return {Algorithm::direct, "shared memory: everyone reads what it needs where it lies"};
}

Choice choose_on_network(const Call& call) {
  const bool tiny = call.bytes <= kTinyBytes && serves(Algorithm::recursive_doubling, call);
  if (call.operation == Operation::barrier) {
    return {tiny ? Algorithm::recursive_doubling : Algorithm::halving_doubling,
            fmt::format("a barrier moves no data: fewest rounds for {} ranks", call.world)};
  }
  // A ring moves one rank's part in a round; so does each link of a chain, nearly.
  const bool small = call.bytes / static_cast<std::uint64_t>(call.world) < kLatencyBytes;
  const std::string each = fmt::format("{} over {} ranks", human_bytes(call.bytes), call.world);
  if (!small) {
    return {Algorithm::ring,
            each + (has_root(call.operation) ? " is bandwidth-bound: blocks follow each other in a chain"
                                             : " is bandwidth-bound: least traffic, neighbours only")};
  }
  if (tiny) return {Algorithm::recursive_doubling, each + " is latency-bound: log2 N rounds"};
  return {has_root(call.operation) ? Algorithm::tree : Algorithm::halving_doubling,
          each + " is latency-bound: log2 N rounds each way"};
}

Choice choose_across_hosts(const Call& call) {
  return {Algorithm::hierarchical,
          fmt::format("{} ranks on {} hosts: each host adds up in shared memory, and sends its sum once",
                      call.world, call.hosts)};
}

Choice choose_best(const Call& call) {
  TUTTI_CHECK(call.world >= 1, "world {}", call.world);
  if (call.world == 1) return {Algorithm::direct, "one rank alone: nothing to exchange"};
  if (call.path == Path::in_place) return choose_in_place(call);
  if (serves(Algorithm::hierarchical, call)) return choose_across_hosts(call);
  if (call.world == 2 && serves(Algorithm::recursive_doubling, call)) {
    return {Algorithm::recursive_doubling,
            "two ranks: they swap all they have, a ring's traffic in one round"};
  }
  if (call.world == 2) return {Algorithm::direct, "two ranks: a ring's traffic in the fewest rounds"};
  if (call.path == Path::shared_memory) return {Algorithm::direct, "shared memory: the fewest rounds"};
  return choose_on_network(call);
}

}  // namespace

Choice choose(const Call& call, std::optional<Algorithm> asked) {
  if (!asked) return choose_best(call);
  if (serves(*asked, call)) return {*asked, "asked for"};
  Choice other = choose_best(call);
  other.reason += fmt::format("; {} does not do this", name_of(*asked));
  return other;
}

}  // namespace tutti::collectives
