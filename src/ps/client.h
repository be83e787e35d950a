// A worker's side of the parameter servers.
//
//   Client client(transport, options, contents, buckets, tables);
//   client.start(step, state);       // the first worker: its weights become the servers'
//   client.pull();                   // then the others: the servers' weights become their own
//   ... client.push(bucket, lr);     // as backward fills it; never blocks on a peer
//   ... client.wait(bucket);         // until all of it has come back
//
// One thread sends gradients, in the order of push(); one receives what comes back while backward still
// computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "net/transport.h"
#include "ps/contents.h"
#include "ps/gate.h"
#include "ps/layout.h"
#include "ps/message.h"

namespace tutti::ps {

// All spans live as long as the client. In shared memory `gradients` lie in the worker's arena.
struct ClientBucket {
  std::span<float> parameters;  // what start() brings to the servers
  std::span<float>
      gradients;  // what push() brings; cleared when they have been used, unless the answer lands there
  std::span<float> landing;  // where what the servers answer goes: either of the two
};

struct ClientTable {
  std::span<float> values;     // the whole table, as this worker sees it; rows that were not pulled are old
  std::span<float> gradients;  // room for a gradient of as many rows; in shared memory in the worker's arena
};

// An optimizer's memory, by slot. Without slots there is none to tell or to learn.
struct StateSlot {
  std::vector<std::span<float>> buckets;
  std::vector<std::span<float>> tables;
};

class Client {
 public:
  // Introduces itself to all servers; blocks until they have compared what all workers say. Buckets and
  // tables are those of the contents. The options and the transport outlive the client. Throws PeerLost,
  // Timeout.
  Client(net::Transport& transport, const ServerOptions& options, const Contents& contents,
         std::vector<ClientBucket> buckets, std::vector<ClientTable> tables = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // These block, and are called while no push is on its way.
  // The parameters of buckets and tables, and `state`, become the servers', as `version`. On return they have
  // it all. Not where servers only average.
  void start(std::int64_t version, const std::vector<StateSlot>& state);
  void pull();
  // All rows of all tables.
  void pull_tables();
  // The servers' optimizer state.
  void fetch_state(const std::vector<StateSlot>& state);
  // No more pushes of this worker.
  void leave();
  // The last word to each server; its report is the answer. With `another_follows` the servers wait for the
  // next client.
  std::vector<ServerReport> say_goodbye(bool another_follows = false);

  // The bucket's gradients may leave. All workers push buckets in the same order. A void push (ps/message.h)
  // leaves them here; they are cleared all the same.
  void push(std::size_t bucket, double lr, Answering answering = Answering::whole,
            Bringing bringing = Bringing::gradient);
  // Until all pieces of the bucket have come back. Throws what the threads met: PeerLost, Timeout,
  // ProtocolError.
  void wait(std::size_t bucket);

  // Where rows of a table stand with the servers (ps/table.h).
  std::vector<std::uint32_t> places_of(std::size_t table, std::span<const std::int64_t> rows) const;

  // The same for rows of a table. Rows are told by their places, which rise; the table's `gradients` begin
  // with a row for each, which stay until wait_rows() returns. Every table is pushed once a step, also
  // without rows. `rows` of the second land in the table's memory: in shared memory before it returns, which
  // may wait for an update to end (Timeout), elsewhere by wait_rows(). While a push is being counted,
  // expect_rows() brings what will be pulled next nearer to the processor, where it can; it waits until
  // pushes have left.
  std::span<float> gradients(std::size_t table) const { return tables_[table].gradients; }
  void push_rows(std::size_t table, std::vector<std::uint32_t> rows, double lr,
                 Bringing bringing = Bringing::gradient);  // nothing: without rows
  void expect_rows(std::size_t table, std::span<const std::uint32_t> rows);
  void pull_rows(std::size_t table, std::span<const std::uint32_t> rows);
  // Until every push of rows has been counted and all pulled rows are there.
  void wait_rows();

  // The lowest version among the pieces and the tables' parts: updates that the whole model has seen.
  std::int64_t version() const;
  std::uint64_t bytes_sent() const;
  // How long something was on its way since it was last asked.
  Clock::duration take_busy_time();

 private:
  struct Track {  // of a piece
    Piece where;
    std::int64_t version = 0;
    bool away = false;
    bool sent = false;  // all of it has left; the answer may overtake the news of that
  };

  Rank server_rank(int server) const { return Rank{options_.first_server + server}; }
  void send_gradients();
  struct PartTrack {  // of a part of a table
    TablePart where;
    std::int64_t version = 0;
    bool sent = true;                                    // as for a piece
    std::deque<std::vector<std::uint32_t>> wanted = {};  // rows that were asked for, in the order of asking
  };

  // The rows of a part among `rows`, which rise: from the first of the two to before the second.
  static std::pair<std::size_t, std::size_t> rows_in(const TablePart& part,
                                                     std::span<const std::uint32_t> rows);
  void start_pieces(std::int64_t version, const std::vector<StateSlot>& state);
  void start_tables(std::int64_t version, const std::vector<StateSlot>& state);
  void fetch_slot(Verb verb, std::uint32_t id, int server, std::uint32_t slot, std::span<float> into);
  void send_piece(std::size_t id, double lr, Answering answering, Bringing bringing);
  void send_rows(std::size_t id, std::span<const std::uint32_t> rows, std::span<const float> gradients,
                 double lr, Bringing bringing);
  template <typename Take>
  void for_portions(std::size_t table, std::span<const std::uint32_t> rows, const Take& take) const;
  void send_wish(std::size_t id, const std::vector<std::uint32_t>& rows);
  Gate& gate_of(const TablePart& part) const;
  const float* shared_rows(const TablePart& part) const;
  void read_rows(std::size_t table, std::span<const std::uint32_t> rows);
  void rows_counted(const Header& header);
  template <typename RowAt>
  void lay_rows(const TablePart& part, std::span<const std::uint32_t> rows, const RowAt& row_at);
  void rows_came(const Header& header, Rank from, const net::Activity& doing);
  void enqueue(std::function<void()> send);
  void receive_pieces();
  void receive_one(Rank from, const net::Activity& doing);
  std::uint64_t place_in_arena(const float* gradients) const;
  void land(const Header& header, Rank from, const net::Activity& doing);
  void clear_gradients(const Piece& piece) const;
  void fail(std::exception_ptr failure);
  void rethrow() const;
  Rank awaited_server() const;
  // `awaited` names one that is to blame if nobody does.
  Rank next_to_answer(const std::function<Rank()>& awaited, const net::Activity& doing);

  net::Transport& transport_;
  const ServerOptions& options_;
  const std::vector<Rank> servers_;
  const std::vector<ClientBucket> buckets_;
  const std::vector<ClientTable> tables_;
  const std::vector<TableShape> shapes_;  // of the tables
  const bool nontemporal_;                // how large buckets are written
  const std::size_t most_under_way_;
  // Of the pieces of each bucket, of the parts of each table; never change.
  Order order_;
  Order part_order_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<Track> pieces_;
  std::vector<std::size_t> lacking_;         // by bucket: pieces that have not come back
  std::deque<std::function<void()>> queue_;  // what to send
  std::vector<PartTrack> parts_;
  std::size_t rows_away_ = 0;  // pushes and pulls of rows
  std::size_t away_ = 0;
  std::size_t under_way_ = 0;  // pieces that have been sent and not been answered
  std::uint64_t sequence_ = 0;
  std::uint64_t bytes_sent_ = 0;
  Clock::time_point busy_since_;
  Clock::duration busy_{};
  bool stop_ = false;
  std::exception_ptr failure_;

  std::vector<float> incoming_rows_;  // the receiver's, where rows travel

  std::thread sender_;
  std::thread receiver_;
};

}  // namespace tutti::ps
