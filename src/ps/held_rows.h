// The rows of embedding tables that a server holds.
#pragma once

#include <memory>
#include <vector>

#include "ps/server_context.h"

namespace tutti::ps {

class HeldRows {
 public:
  // The context outlives it.
  HeldRows(ServerContext& context, const Layout& layout);

  // What workers ask for, by verb; each takes the rest of the message. Throws ProtocolError for what makes no
  // sense, PeerLost, Timeout.
  void on_push(Rank from, const Header& header);
  void on_pull(Rank from, const Header& header);
  void on_start(Rank from, const Header& header);
  void on_state(Rank from, const Header& header);
  void on_leave(int worker);
  void on_drop(int worker);

  // What workers have taken themselves, in shared memory.
  std::uint64_t bytes_read() const;

  // The job stands still: throws Timeout if workers wait for another one's push.
  void blame_awaited(std::chrono::milliseconds standing) const;

 private:
  struct Inbox {
    std::vector<std::uint32_t> rows;  // places, from the partition's first
    std::span<const float> gradients;
    std::vector<float> arriving;  // the gradients, where they travel
    bool is_void = false;
  };
  struct Held {
    std::uint32_t id = 0;
    TablePartition partition;
    Gate* gate = nullptr;
    std::span<float> values;
    std::vector<std::vector<float>> state{};
    std::vector<Inbox> inbox;                 // by worker
    std::vector<std::vector<Inbox>> earlier;  // by worker: sums of shards that came before
    std::vector<double> lr;                   // by worker
    RowMerger merger;
    Ledger ledger;
  };

  Held& find(Rank from, const Header& header);
  void receive_row_numbers(Rank from, const Header& header, const Held& held,
                           std::vector<std::uint32_t>& rows);
  void receive_rows(Rank from, const Header& header, const Held& held, Inbox& into);
  static void leave_out_void(const Held& held, Decision& decision);
  void follow(Held& held, const Decision& decision);
  void update(Held& held, const std::vector<int>& from);
  RowSums mean_of_shards(Held& held, const std::vector<int>& from) const;
  void reply(int worker, Header header, std::vector<float> values);

  ServerContext& context_;
  std::vector<std::unique_ptr<Held>> partitions_;  // by id; empty for other servers'
  Inbox arriving_;
  std::vector<std::uint32_t> wanted_;  // rows that a worker pulls, as above
};

}  // namespace tutti::ps
