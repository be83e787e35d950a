// What the two halves of a server share: pieces of buckets (held_pieces.h) and rows of tables (held_rows.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>

#include "base/error.h"
#include "ps/contents.h"
#include "ps/message.h"
#include "ps/outbox.h"

namespace tutti::ps {

// One server's. The serving thread uses it; `bytes_sent` also the outbox's.
struct Desk {
  net::Transport& transport;
  const ServerOptions& options;
  int self = 0;  // of the servers, which
  Outbox& outbox;
  ServerReport& report;
  std::atomic<std::uint64_t> bytes_sent{0};

  // Of a push.
  void count(const Ruling& ruling) const {
    const auto used = static_cast<std::int64_t>(ruling.update_from.size());
    report.applied += used;
    if (used > 0) report.staleness[ruling.staleness] += used;
    report.repeated += ruling.repeated ? 1 : 0;
    report.dropped += ruling.gradient == Ruling::Gradient::drop && !ruling.repeated ? 1 : 0;
  }

  double rate_of(const Header& header, const Ruling& ruling) const {
    if (!options.damp_stale) return header.lr;
    return header.lr / static_cast<double>(std::max<std::int64_t>(1, ruling.staleness));
  }
};

inline Push push_of(Rank from, const Header& header) {
  return {to_int(from), header.incarnation, header.sequence, header.version};
}

// Hands out a slot of an optimizer's state, which `header` asks for.
inline void answer_state(Desk& desk, Rank from, const Header& header,
                         const std::vector<std::vector<float>>& state) {
  if (header.slot < 1 || header.slot > state.size()) {
    throw ProtocolError(
        fmt::format("worker {} asks for slot {} of {}", to_int(from), header.slot, state.size()));
  }
  const auto bytes = std::as_bytes(std::span(state[header.slot - 1]));
  desk.bytes_sent += bytes.size();
  desk.outbox.send_now([&] {
    send(desk.transport, from,
         {.verb = Verb::state, .piece = header.piece, .slot = header.slot, .bytes = bytes.size()}, bytes,
         {"sending optimizer state"});
  });
}

// Since when workers have been waiting for another one's push.
class Patience {
 public:
  void note(const Ledger& ledger, const Ruling& ruling) {
    if (ledger.awaited() < 0) {
      since_.reset();
    } else if (!since_ || !ruling.answers.empty()) {
      since_ = Clock::now();
    }
  }
  // Throws Timeout that names the worker; `what` is what it should have pushed.
  void check(const Desk& desk, const Ledger& ledger, const std::string& what) const {
    if (!since_ || Clock::now() - *since_ < desk.options.timeout) return;
    throw Timeout({desk.transport.rank(), Rank{ledger.awaited()},
                   fmt::format("push of {}, version {}", what, ledger.version()), elapsed_ms(*since_)});
  }

 private:
  std::optional<Clock::time_point> since_;
};

}  // namespace tutti::ps
