// A worker's side of the embedding tables that servers hold.
//
//   RowClient rows(connection, tables);
//   rows.start(step, state);         // the first worker: its tables become the servers'
//   rows.pull(table, places);        // what the next batch reads
//   rows.wait();
//   ... rows.push(table, places, lr);  // never blocks on a peer
//   ... rows.wait();                 // until every push has been counted
//
// Rows are told by their places, which rise (ps/table.h). A push brings rows and is answered by a word that
// it was counted; no rows come back with it. What the next batch reads is pulled.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ps/connection.h"
#include "ps/payload.h"
#include "ps/table.h"

namespace tutti::ps {

// The spans live as long as the client.
struct ClientTable {
  std::span<float> values;     // the whole table, as this worker sees it; rows that were not pulled are old
  std::span<float> gradients;  // room for a gradient of as many rows; in shared memory in the worker's arena
};

// One thread at a time calls it.
class RowClient final : private AnswerHandler {
 public:
  // Tables are those of the connection's contents. The connection outlives it.
  RowClient(Connection& connection, std::vector<ClientTable> tables);
  ~RowClient() override;
  RowClient(const RowClient&) = delete;
  RowClient& operator=(const RowClient&) = delete;

  // These three block, and are called while nothing is under way. Throw PeerLost, Timeout, ProtocolError.
  // The tables, and `state`, become the servers', as `version`. On return they have it all. Not where servers
  // only average.
  void start(std::int64_t version, const std::vector<StateSlot>& state);
  // All rows of all tables.
  void pull_all();
  // The servers' optimizer state.
  void fetch_state(const std::vector<StateSlot>& state);

  // The places of rows of a table, in the order of the rows.
  std::vector<std::uint32_t> places_of(std::size_t table, std::span<const std::int64_t> rows) const;

  // Where the gradients of a push are to be written: a row for each place, from the beginning on. They stay
  // until wait() returns.
  std::span<float> gradients(std::size_t table) const { return tables_[table].gradients; }
  // Every table is pushed once a step, also without rows. A push of nothing has none. It brings one sum or,
  // by shards (ServerOptions::shards), several, whose gradients follow each other.
  void push(std::size_t table, const std::vector<std::vector<std::uint32_t>>& places_of_sums, double lr,
            PushKind bringing = PushKind::gradient);
  // These rows will be pulled next. Where rows stay in place it brings them nearer to the processor while a
  // push is being counted; it waits until pushes have left. Throws as wait() does.
  void expect(std::size_t table, std::span<const std::uint32_t> places);
  // The rows land in the table's memory: in place before it returns, which may wait for an update to end
  // (Timeout); else by wait().
  void pull(std::size_t table, std::span<const std::uint32_t> places);
  // Until every push has been counted and all pulled rows are there. Throws what the connection's threads
  // met: PeerLost, Timeout, ProtocolError.
  void wait();

  // The lowest version among the tables' partitions: updates that all of them have seen. Without tables the
  // highest number there is.
  std::int64_t version() const;

 private:
  using Places = std::span<const std::uint32_t>;

  struct Track {           // of a partition
    TablePartition where;  // never changes
    std::int64_t version = 0;
    bool sent = true;                                    // all of its push has left; see PieceClient::Track
    std::deque<std::vector<std::uint32_t>> wanted = {};  // places that were asked for, in the order of asking
  };

  bool handles(const Header& answer) const override;
  bool on_answer(const Header& answer, Rank from, const net::Activity& doing) override;
  std::optional<Rank> awaited() const override;
  bool may_send() const override { return true; }

  Rank server_of(const TablePartition& partition) const { return connection_.rank_of(partition.server); }
  std::optional<Payloads::Held> held(const TablePartition& partition) const;
  // Those of a partition among `places`: from the first of the two to before the second.
  static std::pair<std::size_t, std::size_t> range_in(const TablePartition& partition, Places places);
  template <typename Take>
  void for_batches(std::size_t table, Places places, const Take& take) const;
  void post(std::function<void()> send);
  struct RowsOfPush {  // of one sum, in one partition
    Places places;
    std::span<const float> gradients;
  };
  void send_push(std::size_t id, const std::vector<RowsOfPush>& sums, double lr, PushKind bringing);
  void send_rows(std::size_t id, const RowsOfPush& sum, Header header);
  void request_rows(std::size_t id, const std::vector<std::uint32_t>& places);
  void read_in_place(std::size_t table, Places places);
  void on_counted(const Header& answer);
  void on_rows(const Header& answer, Rank from, const net::Activity& doing);
  template <typename RowAt>
  void lay_rows(const TablePartition& partition, Places places, const RowAt& row_at);

  Connection& connection_;
  Requests& requests_;
  net::Transport& transport_;
  const Payloads payloads_;
  const std::vector<ClientTable> tables_;
  const Order order_;  // of the partitions of each table

  // Guarded by the requests' lock.
  std::vector<Track> partitions_;
  std::size_t away_ = 0;  // pushes and pulls

  std::vector<float> arriving_;  // rows that travel; of the thread that receives
};

}  // namespace tutti::ps
