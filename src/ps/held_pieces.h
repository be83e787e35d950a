// The pieces of buckets that a server holds.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ps/server_context.h"

namespace tutti::ps {

class HeldPieces {
 public:
  // The context outlives it.
  HeldPieces(ServerContext& context, const Layout& layout);

  // What workers ask for, by verb; each takes the rest of the message. Throws ProtocolError for what makes no
  // sense, PeerLost, Timeout.
  void on_push(Rank from, const Header& header);
  void on_pull(Rank from, const Header& header);
  void on_start(Rank from, const Header& header);
  void on_state(Rank from, const Header& header);
  void on_leave(int worker);
  void on_drop(int worker);

  // The job stands still: throws Timeout if workers wait for another one's push.
  void blame_awaited(std::chrono::milliseconds standing) const;

 private:
  struct Sum {
    std::vector<float> arrived;  // the numbers, where they travel
    std::span<const float> numbers;
  };
  struct Held {
    std::uint32_t id = 0;
    std::size_t count = 0;
    Gate* gate = nullptr;
    std::span<float> values;  // parameters, or mean gradients
    std::vector<std::vector<float>> state;
    std::vector<std::vector<float>> inbox;          // by worker: gradients that travelled
    std::vector<std::span<const float>> gradients;  // by worker: where each lies; empty: void
    std::vector<std::vector<Sum>> earlier;          // by worker: sums of shards that came before its gradient
    std::vector<Reply> replies;                     // by worker
    std::vector<double> lr;                         // by worker
    std::optional<Ledger> ledger;
    std::atomic<int> unsent{0};  // replies that have not left
  };

  Held& find(Rank from, const Header& header);
  std::span<const float> receive_gradient(Rank from, const Header& header, const Held& held);
  static void leave_out_void(const Held& held, Decision& decision);
  void follow(Held& held, const Decision& decision);
  void update(Held& held, const std::vector<int>& from);
  void keep_earlier(Rank from, Held& held, std::span<const float> sum);
  std::span<const float> mean_of(Held& held, const std::vector<int>& from, std::span<float> room) const;
  void reply(Held& held, int worker, Reply kind);
  void send_piece(const Held& held, int worker, Header header);
  std::span<const float> payload_of(const Held& held);
  bool stable() const;

  ServerContext& context_;
  std::vector<std::unique_ptr<Held>> pieces_;  // by id; empty for other servers'
  std::vector<float> scratch_;
  std::vector<float> arriving_;
  std::vector<float> copy_;  // of what is on its way; the outbox's
};

}  // namespace tutti::ps
