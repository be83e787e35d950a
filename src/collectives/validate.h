// Checks the four rules of schedule.h on the schedules of all ranks of one collective.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "collectives/schedule.h"

namespace tutti::collectives {

namespace detail {

// Rule 4, and that the chunk lies in the buffer and the peer in the world.
inline std::string flaw_of(Rank peer, Chunk chunk, int self, std::size_t world, std::size_t count) {
  if (chunk.count == 0) return "an empty chunk travels";
  if (chunk.first > count || chunk.count > count - chunk.first) return "a chunk leaves the buffer";
  if (to_int(peer) < 0 || static_cast<std::size_t>(to_int(peer)) >= world)
    return "a peer is not in the world";
  if (to_int(peer) == self) return "a rank talks to itself";
  return {};
}

// Rule 3.
inline std::string flaw_of_overlaps(const Round& round, bool by_messages) {
  for (std::size_t i = 0; i < round.receives.size(); ++i) {
    const Receive& r = round.receives[i];
    for (const Send& s : round.sends) {
      if (overlap(r.chunk, s.chunk) && !(by_messages && r.combine))
        return "a received chunk overlaps a sent one";
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Receive& other = round.receives[j];
      if (overlap(r.chunk, other.chunk) && !(r.combine && other.combine)) return "received chunks overlap";
    }
  }
  return {};
}

// Rule 2, for one rank's half of it: each thing sent is expected just once, each thing expected is sent.
inline std::string flaw_of_matches(std::span<const Schedule> all, std::size_t k, int self) {
  const Round& mine = all[static_cast<std::size_t>(self)].rounds[k];
  for (const Send& s : mine.sends) {
    const auto same_peer = [&](const auto& other) { return other.peer == s.peer; };
    if (std::ranges::count_if(mine.sends, same_peer) != 1) return "two sends to one peer";
    const auto from_here = [&](const Receive& r) { return r.peer == Rank{self}; };
    const auto& theirs = all[static_cast<std::size_t>(to_int(s.peer))].rounds[k].receives;
    if (std::ranges::count_if(theirs, from_here) != 1) return "a send is not received just once";
    if (std::ranges::find_if(theirs, from_here)->chunk != s.chunk)
      return "a send is received as another chunk";
  }
  for (const Receive& r : mine.receives) {
    const auto to_here = [&](const Send& s) { return s.peer == Rank{self}; };
    const auto& theirs = all[static_cast<std::size_t>(to_int(r.peer))].rounds[k].sends;
    if (std::ranges::none_of(theirs, to_here)) return "a receive waits for what nobody sends";
  }
  return {};
}

}  // namespace detail

// Empty if the schedules (one per rank, in order) keep the rules over a buffer of `count` elements; else the
// first breach: "round 2, rank 1: two sends to one peer". `by_messages`: of an algorithm that runs so alone.
inline std::string broken_rule(std::span<const Schedule> all, std::size_t count, bool by_messages = false) {
  for (const Schedule& s : all) {
    if (s.rounds.size() != all[0].rounds.size()) return "ranks differ in their number of rounds";
  }
  std::string flaw;
  for (std::size_t k = 0; !all.empty() && k < all[0].rounds.size(); ++k) {
    const auto report = [&](int rank) { return fmt::format("round {}, rank {}: {}", k, rank, flaw); };
    for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
      const Round& round = all[static_cast<std::size_t>(rank)].rounds[k];
      const auto check = [&](const auto& transfer) {
        if (flaw.empty()) flaw = detail::flaw_of(transfer.peer, transfer.chunk, rank, all.size(), count);
      };
      std::ranges::for_each(round.sends, check);
      std::ranges::for_each(round.receives, check);
      if (flaw.empty()) flaw = detail::flaw_of_overlaps(round, by_messages);
      if (!flaw.empty()) return report(rank);
    }
    for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
      flaw = detail::flaw_of_matches(all, k, rank);
      if (!flaw.empty()) return report(rank);
    }
  }
  return {};
}

}  // namespace tutti::collectives
