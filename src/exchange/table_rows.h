// A worker's embedding tables (src/grad/tables.h) against the servers that hold them.
//
// Forward reads rows of the worker's own copy. Their gradients leave as rows, and before the next step the
// rows that it will read come back; all others may be old.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "exchange/shard_gradients.h"
#include "exchange/updater.h"
#include "grad/tables.h"
#include "ps/row_client.h"

namespace tutti::exchange {

// Used by the trainer's thread, but for on_gradient, which comes from backward's while the trainer waits in
// backward. Calls that wait for servers throw PeerLost and Timeout.
class TableRows {
 public:
  // All arguments outlive it; the client has exactly these tables. With `shards` a step's gradients come
  // shard by shard (exchange/shard_gradients.h).
  TableRows(const grad::Tables& tables, Updater& updater, ps::RowClient& client,
            const ShardGradients* shards = nullptr);

  // A backward pass is over, and others of the same shard follow. Without shards it does nothing: rows of
  // several passes are then added up as they lie there.
  void end_pass(std::size_t table);

  // Gradients of one more shard, not the last, are there.
  void set_aside();

  // This table's gradient is final for this step: it leaves, or waits for finish_step() where a step may be
  // skipped. Never blocks on a peer. Throws NonFinite.
  void on_gradient(std::size_t table);

  // Takes the gradients that have not been announced. Whether those of all tables can be used.
  bool collect();

  // The next step reads these rows, among repetitions; told before the step in progress is finished.
  void expect(std::size_t table, std::span<const std::int64_t> rows);

  // On return every table's gradient has been counted, and the expected rows are as the servers have them.
  // What has not left by then is pushed as void unless it is `usable`.
  void finish_step(bool usable = true);

  // How long the last finish_step() took.
  Clock::duration last_wait() const { return last_wait_; }

  // On return all rows of all tables are as the servers have them.
  void fetch_all() { client_.pull_all(); }

  // The fraction of each table's rows that a step has touched, as a mean over the steps since it was last
  // asked.
  std::vector<double> take_densities();

 private:
  struct Taken {
    bool here = false;                                  // the gradient lies in the client's memory
    bool pushed = false;                                // and has left
    std::vector<std::vector<std::uint32_t>> rows = {};  // of each sum that it brings
  };
  // Sums of shards, none of which can be added to another yet, in their order.
  struct Waiting {
    std::vector<ShardNode> nodes = {};
    std::vector<ps::RowSums> sums = {};  // of each
    int done = 0;
  };
  void take(std::size_t table);
  std::vector<std::uint32_t> sum_gradient(std::size_t table,
                                          const std::function<std::span<float>(std::size_t floats)>& room);
  ps::RowSums take_passes(std::size_t table);
  void add_shard(std::size_t table);
  void push(std::size_t table, bool usable);

  const grad::Tables& tables_;
  Updater& updater_;
  ps::RowClient& client_;
  const ShardGradients* const shards_;
  std::vector<ps::RowSums> passes_;                   // by table: of the shard in progress
  std::vector<Waiting> waiting_;                      // by table
  std::vector<Taken> taken_;                          // by table: of this step
  std::vector<std::vector<std::uint32_t>> expected_;  // by table: places, rising
  std::vector<double> touched_;                       // by table: rows, over all steps
  std::int64_t steps_ = 0;
  Clock::duration last_wait_{};
};

// What the servers are told of the tables, and where the client finds them. Their gradients have room in the
// workers' memory.
std::vector<ps::TableShape> shapes_of(const grad::Tables& tables);
std::vector<ps::ClientTable> client_tables(const grad::Tables& tables, collectives::Collectives& workers,
                                           const ShardGradients* shards = nullptr);

}  // namespace tutti::exchange
