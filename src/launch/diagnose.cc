#include "launch/diagnose.h"

#include <algorithm>

#include "base/process.h"
#include "net/auth.h"

namespace tutti::launch {
namespace {

using Kind = Failure::Kind;

bool blames_a_peer(const RankEnd& e) {
  return e.failure && e.failure->fault.has_value();
}

std::string who(const std::vector<RankEnd>& ends, Rank rank) {
  if (rank == net::kRendezvous) return "the rendezvous";
  const auto end = std::ranges::find(ends, rank, &RankEnd::rank);
  return fmt::format("rank {}{}", to_int(rank), end != ends.end() && end->server ? " (a server)" : "");
}

// What the others were doing when `culprit` failed them: "; rank 0 was in all-reduce of bucket 0, step 7".
std::string witnesses(const std::vector<RankEnd>& ends, Rank culprit) {
  for (const RankEnd& e : ends) {
    if (e.rank != culprit && blames_a_peer(e)) {
      return fmt::format("; {} was in {}", who(ends, e.rank), e.failure->fault->operation);
    }
  }
  return "";
}

const RankEnd* first_by_order(const std::vector<RankEnd>& ends, auto holds) {
  const RankEnd* found = nullptr;
  for (const RankEnd& e : ends) {
    if (!e.running && holds(e) && (found == nullptr || e.order < found->order)) found = &e;
  }
  return found;
}

// Ranks that wait in a circle all blame their neighbour. Who has said nothing himself is the one that hangs.
Diagnosis blame_the_silent(const std::vector<RankEnd>& ends, const RankEnd& reporter) {
  const PeerFault* fault = &*reporter.failure->fault;
  // Who has called in vain knows more than who was not called, or waited until all had been.
  for (const RankEnd& e : ends) {
    if (blames_a_peer(e) && e.failure->fault->operation == "connecting" && !e.failure->fault->address.empty())
      fault = &*e.failure->fault;
  }
  for (const RankEnd& e : ends) {
    if (!blames_a_peer(e)) continue;
    const auto peer = std::ranges::find(ends, e.failure->fault->peer, &RankEnd::rank);
    if (peer != ends.end() && peer->running) fault = &*e.failure->fault;
  }
  const auto peer = std::ranges::find(ends, fault->peer, &RankEnd::rank);
  const bool stopped = peer != ends.end() && peer->stopped;
  return {reporter.exit_code,
          fmt::format("{} did not answer for {:.1f} s{}: {} waited for it in {}{}{}", who(ends, fault->peer),
                      static_cast<double>(fault->waited.count()) / 1000.0,
                      stopped ? " (its process is stopped)" : "", who(ends, fault->rank), fault->operation,
                      fault->address.empty() ? "" : " at ", fault->address)};
}

}  // namespace

Diagnosis diagnose(const std::vector<RankEnd>& ends) {
  if (const auto* e = first_by_order(ends, [](const RankEnd& x) { return x.signal != 0; })) {
    const auto fate = e->found.empty() ? "was killed by " + signal_name(e->signal) : e->found;
    return {1, fmt::format("{} {}{}", who(ends, e->rank), fate, witnesses(ends, e->rank))};
  }
  // What others say then, even of themselves, only follows from it: their collectives were cut short. It says
  // who, and where.
  const auto nonfinite = [](const RankEnd& x) { return x.failure && x.failure->kind == Kind::nonfinite; };
  if (const auto* e = first_by_order(ends, nonfinite)) return {e->exit_code, e->failure->what, true};
  if (const auto* e = first_by_order(ends, [](const RankEnd& x) { return x.failure && !blames_a_peer(x); })) {
    return {e->exit_code, fmt::format("{} failed: {}", who(ends, e->rank), e->failure->what)};
  }
  const auto unexplained = [](const RankEnd& x) { return x.exit_code != 0 && !x.failure; };
  if (const auto* e = first_by_order(ends, unexplained)) {
    return {e->exit_code, fmt::format("{} ended with exit code {} and no word{}", who(ends, e->rank),
                                      e->exit_code, witnesses(ends, e->rank))};
  }
  const auto timed_out = [](const RankEnd& x) { return x.failure && x.failure->kind == Kind::timeout; };
  if (const auto* e = first_by_order(ends, timed_out)) return blame_the_silent(ends, *e);
  if (const auto* e = first_by_order(ends, blames_a_peer)) return {e->exit_code, e->failure->what};
  return {};
}

}  // namespace tutti::launch
