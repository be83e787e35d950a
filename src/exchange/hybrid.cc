#include "exchange/hybrid.h"

#include <fmt/format.h>

#include "exchange/servers.h"

namespace tutti::exchange {

Hybrid::Hybrid(const Parts& p, const Tuning& tuning)
    : has_tables_(p.tables.size() > 0),
      buckets_(p.buckets),
      updater_(p.updater),
      workers_(p.workers),
      trace_(p.trace),
      connection_(p.everyone, tuning.servers,
                  {.tables = shapes_of(p.tables), .partitions = tuning.partitions}),
      row_client_(connection_, client_tables(p.tables, p.workers, p.shards)),
      rows_(p.tables, p.updater, row_client_, p.shards),
      dense_(p, average_by_all_reduce(p.shards), [this](std::size_t bucket) { take_in(bucket); }) {}

void Hybrid::start(std::int64_t step, bool with_state) {
  dense_.start(step, with_state);
  if (workers_.rank() == Rank{0}) row_client_.start(step, with_state ? updater_.state() : Updater::State{});
  workers_.barrier("initial rows");
  rows_.fetch_all();
}

// With the last bucket all have come in, and the workers' engine is free.
void Hybrid::take_in(std::size_t bucket) {
  if (has_tables_ && updater_.finite().skips() && bucket + 1 == buckets_.size()) agree_about_rows();
  updater_.apply(bucket);
}

void Hybrid::agree_about_rows() {
  if (true_for_all(workers_, rows_.collect(), "rows are finite")) return;
  updater_.veto();
  updater_.finite().skip();
}

// The rows first: the communication thread goes on with the buckets meanwhile.
void Hybrid::finish_step() {
  const bool skips = updater_.finite().skips();
  if (skips && buckets_.size() == 0) agree_about_rows();
  if (skips) dense_.finish_step();
  const auto begin = Clock::now();
  if (has_tables_) rows_.finish_step(!updater_.finite().skipped());
  const auto end = Clock::now();
  trace_.add(observe::Lane::waiting, "rows", begin, end);
  if (!skips) dense_.finish_step();
  times_ = dense_.times();
  times_.busy += connection_.take_busy_time();
  times_.exposed += end - begin;
}

void Hybrid::fetch_state() {
  rows_.fetch_all();
  row_client_.fetch_state(updater_.state());
}

void Hybrid::finish(Afterwards afterwards) {
  dense_.finish(afterwards);
  connection_.leave();
  workers_.barrier("the end");
  workers_.rank() == Rank{0} ? fetch_state() : rows_.fetch_all();
  workers_.barrier("the end");  // what the servers tell next is all of it
  reports_ = connection_.say_goodbye(afterwards == Afterwards::another_session);
}

std::optional<observe::ServersFigures> Hybrid::by_servers() const {
  return combine_reports(reports_);
}

Strategy hybrid() {
  return {.name = "hybrid",
          .summary = "dense gradients by all-reduce, embedding rows by servers",
          .servers = ps::Consistency::sync,
          .hybrid = true,
          .takes_shards = true,
          .settings = {"servers", "colocate", "no_sparse", "partitions", "measure_links"},
          .collectives = {collectives::Operation::all_reduce},
          .other_way =
              [](const Tuning& tuning) { return fmt::format("rows by {} servers", tuning.servers.servers); },
          .make = [](const Parts& p, const Tuning& tuning) { return std::make_unique<Hybrid>(p, tuning); }};
}

}  // namespace tutti::exchange
