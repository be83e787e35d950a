// What the two halves of a server share: pieces of buckets (held_pieces.h) and rows of tables (held_rows.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/shard_tree.h"
#include "ps/gate.h"
#include "ps/layout.h"
#include "ps/message.h"
#include "ps/outbox.h"
#include "ps/payload.h"

namespace tutti::ps {

// One server's. The serving thread uses it; `bytes_sent` also the outbox's.
struct ServerContext {
  net::Transport& transport;
  const ServerOptions& options;
  const Payloads payloads;
  int self = 0;                 // of the servers, which
  std::span<std::byte> room{};  // what it holds (see Layout)
  Outbox& outbox;
  ServerReport& report;
  std::atomic<std::uint64_t> bytes_sent{0};
  std::mutex mutex{};
  std::set<Rank> lost{};  // workers that were found dead and are not dropped yet; guarded by the mutex

  // Sends something to a worker. Should it be dead it is noted, where the others go on without it.
  void deliver(Rank worker, const std::function<void()>& send_it) {
    try {
      send_it();
    } catch (const PeerLost& e) {
      if (!options.survives_workers || e.fault.peer != worker) throw;
      const std::scoped_lock lock(mutex);
      lost.insert(worker);
    }
  }

  // Sends an answer by `send_it`. In place it is a header, or a row, which is gone in no time. What travels
  // is left to the outbox's thread: a slow reader must not hold up the updates that others wait for. Among
  // answers that wait there the most urgent leaves first.
  void answer(std::uint32_t urgency, const std::function<void()>& send_it) const {
    payloads.in_place() ? outbox.send_now(send_it) : outbox.post(urgency, send_it);
  }

  // Of a push.
  void count(const Decision& decision) const {
    const auto used = static_cast<std::int64_t>(decision.update_from.size());
    report.applied += used;
    if (used > 0) report.staleness[decision.staleness] += used;
    report.repeated += decision.repeated ? 1 : 0;
    report.dropped += decision.gradient == Decision::Gradient::drop && !decision.repeated ? 1 : 0;
  }

  // Sums of shards that a worker brings in a push before its last one.
  std::size_t earlier_sums_of(Rank worker) const {
    if (options.shards == 0) return 0;
    const ShardTree tree(options.shards);
    return tree.held_of(tree.run_of(to_int(worker), options.workers)).size() - 1;
  }

  double rate_of(const Header& header, const Decision& decision) const {
    if (!options.damp_stale) return header.lr;
    return header.lr / static_cast<double>(std::max<std::int64_t>(1, decision.staleness));
  }
};

inline Push push_of(Rank from, const Header& header) {
  return {to_int(from), header.incarnation, header.sequence, header.version};
}

// A new gate, where numbers of an earlier session may lie, and what it guards.
inline std::pair<Gate*, std::span<float>> place_gate(std::span<std::byte> room, std::size_t at,
                                                     std::size_t floats) {
  return {std::construct_at(reinterpret_cast<Gate*>(room.data() + at)), values_behind(room, at, floats)};
}

// Hands out a slot of an optimizer's state, which `header` asks for.
inline void answer_state(ServerContext& context, Rank from, const Header& header,
                         const std::vector<std::vector<float>>& state) {
  if (header.slot < 1 || header.slot > state.size()) {
    throw ProtocolError(
        fmt::format("worker {} asks for slot {} of {}", to_int(from), header.slot, state.size()));
  }
  const auto bytes = std::as_bytes(std::span(state[header.slot - 1]));
  context.bytes_sent += bytes.size();
  context.outbox.send_now([&] {
    context.deliver(from, [&] {
      send(context.transport, from,
           {.verb = Verb::state, .piece = header.piece, .slot = header.slot, .bytes = bytes.size()}, bytes,
           {"sending optimizer state"});
    });
  });
}

// The job stands still: throws Timeout that names the worker for whose push others wait, if they wait for
// one; `what` is what it should have pushed.
inline void blame_awaited(const ServerContext& context, const Ledger& ledger, const std::string& what,
                          std::chrono::milliseconds standing) {
  if (ledger.awaited() < 0) return;
  const net::Transport& t = context.transport;
  throw Timeout({t.in_job(t.rank()), t.in_job(Rank{ledger.awaited()}),
                 fmt::format("push of {}, version {}", what, ledger.version()), standing});
}

}  // namespace tutti::ps
