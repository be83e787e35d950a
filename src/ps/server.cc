#include "ps/server.h"

#include <memory>
#include <set>

#include "base/error.h"
#include "net/stall.h"
#include "ps/held_pieces.h"
#include "ps/held_rows.h"

namespace tutti::ps {
namespace {

using net::Activity;

// How often an idle server looks whether the job stands still.
constexpr auto kGlance = std::chrono::milliseconds(200);

// From the workers' hello to their goodbye.
class Serving {
 public:
  Serving(net::Transport& transport, const ServerOptions& options)
      : transport_(transport),
        context_{.transport = transport,
                 .options = options,
                 .payloads = Payloads(transport),
                 .self = to_int(transport.rank()) - options.first_server,
                 .outbox = outbox_,
                 .report = report_} {
    for (int w = 0; w < options.workers; ++w) here_.insert(w);
  }

  ~Serving() {
    if (!here_.empty()) transport_.cancel();  // something went wrong: nobody may be listening any more
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  ServerReport run() {
    transport_.board().say(transport_.rank(), "joining the workers");
    greet();
    transport_.board().say(transport_.rank(), "serving");
    net::Stall stall(transport_.board(), context_.options.timeout);
    while (!here_.empty()) {
      try {
        serve_one(stall);
      } catch (const PeerLost& e) {
        if (!context_.options.survives_workers || !here_.contains(to_int(e.fault.peer))) throw;
        const std::scoped_lock lock(context_.mutex);
        context_.lost.insert(e.fault.peer);
      }
      drop_lost();
    }
    outbox_.drain();  // what still leaves counts
    report_.bytes_sent = bytes_sent();
    return report_;
  }

  // The workers have said that they come back, to begin anew.
  bool another_follows() const { return another_follows_; }

 private:
  void serve_one(net::Stall& stall) {
    const std::vector<Rank> peers = workers_here();
    const auto from = transport_.wait_for_any(peers, kGlance, {"waiting for gradients"});
    // What its thread met ends the server: workers wait for answers that will not come.
    outbox_.check();
    if (from) {
      handle(*from);
    } else if (stall.over()) {
      pieces_->blame_awaited(stall.standing_ms());
      rows_->blame_awaited(stall.standing_ms());
    }
  }

  // In rounds: to answer those that waited for a dead worker may show that another has died.
  void drop_lost() {
    while (true) {
      std::set<Rank> lost;
      {
        const std::scoped_lock lock(context_.mutex);
        lost.swap(context_.lost);
      }
      if (lost.empty()) return;
      for (const Rank w : lost) {
        if (here_.erase(to_int(w)) == 0) continue;
        // Where others have said goodbye the run is complete, and the last one dies after its work.
        if (here_.empty() && !somebody_ended_) throw RunError("no worker is left");
        pieces_->on_drop(to_int(w));
        rows_->on_drop(to_int(w));
      }
    }
  }

  std::uint64_t bytes_sent() const { return context_.bytes_sent + rows_->bytes_read(); }

  std::vector<Rank> workers_here() const {
    std::vector<Rank> peers;
    for (const int w : here_) peers.push_back(Rank{w});
    return peers;
  }

  // The first worker's contents become ours; everybody else's must be the same, and the rest what we were
  // told ourselves. In the order of ranks: who is told to differ does not depend on who came first.
  void greet() {
    const Activity doing{"joining the servers"};
    nlohmann::json ours;
    for (const int w : here_) {
      const Header header = receive_header(transport_, Rank{w}, doing);
      if (header.verb != Verb::hello) throw ProtocolError(fmt::format("worker {} did not say hello", w));
      const auto theirs =
          nlohmann::json::parse(receive_text(transport_, Rank{w}, header, doing), nullptr, false);
      if (!theirs.is_object()) throw ProtocolError(fmt::format("worker {} did not describe its model", w));
      if (ours.is_null()) {
        const Contents contents = contents_in(theirs);
        ours = describe(context_.options, contents);
        const Layout layout = lay_out(contents, context_.options.servers);
        context_.room =
            context_.payloads.room_to_hold(layout.bytes[static_cast<std::size_t>(context_.self)], own_);
        pieces_.emplace(context_, layout);
        rows_.emplace(context_, layout);
      }
      if (theirs != ours) {
        throw ConfigError(fmt::format("worker {} does not fit server {}: {}",
                                      to_int(transport_.in_job(Rank{w})), context_.self,
                                      difference(ours, theirs)));
      }
    }
    for (const int w : here_) send(transport_, Rank{w}, {.verb = Verb::welcome}, {}, doing);
  }

  void handle(Rank from) {
    const Header header = receive_header(transport_, from, {"serving"});
    switch (header.verb) {
      case Verb::push:
        return pieces_->on_push(from, header);
      case Verb::pull:
        return pieces_->on_pull(from, header);
      case Verb::start:
        return pieces_->on_start(from, header);
      case Verb::state:
        return pieces_->on_state(from, header);
      case Verb::push_rows:
        return rows_->on_push(from, header);
      case Verb::pull_rows:
        return rows_->on_pull(from, header);
      case Verb::start_rows:
        return rows_->on_start(from, header);
      case Verb::state_rows:
        return rows_->on_state(from, header);
      case Verb::leave:
        pieces_->on_leave(to_int(from));
        return rows_->on_leave(to_int(from));
      case Verb::bye:
        return on_bye(from, header);
      default:
        throw ProtocolError(
            fmt::format("worker {} sent verb {}", to_int(from), static_cast<std::uint32_t>(header.verb)));
    }
  }

  void on_bye(Rank from, const Header& header) {
    // Before the answer: the worker may go as soon as it has it, and that is no death.
    here_.erase(to_int(from));
    somebody_ended_ = true;
    another_follows_ = header.slot != 0;
    ServerReport so_far = report_;
    so_far.bytes_sent = bytes_sent();
    const std::string text = nlohmann::json(so_far).dump();
    outbox_.send_now([&] {
      context_.deliver(from, [&] {
        send(transport_, from, {.verb = Verb::bye, .bytes = text.size()}, std::as_bytes(std::span(text)),
             {"saying goodbye"});
      });
    });
  }

  net::Transport& transport_;
  std::set<int> here_;  // workers that have not said goodbye
  bool somebody_ended_ = false;
  bool another_follows_ = false;
  ServerReport report_;
  ServerContext context_;
  std::vector<float> own_;  // what is held, where workers cannot read it
  std::optional<HeldPieces> pieces_;
  std::optional<HeldRows> rows_;
  Outbox outbox_;  // last: what it still sends is all of the above
};

}  // namespace

ServerReport serve(net::Transport& transport, const ServerOptions& options) {
  TUTTI_CHECK(transport.world() <= Gate::kMostRanks, "{} ranks", transport.world());
  while (true) {
    Serving session(transport, options);
    ServerReport report = session.run();
    if (!session.another_follows()) return report;
  }
}

}  // namespace tutti::ps
