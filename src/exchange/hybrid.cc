#include "exchange/hybrid.h"

#include "exchange/servers.h"

namespace tutti::exchange {

Hybrid::Hybrid(const Parts& p, const Tuning& tuning)
    : has_tables_(p.tables.size() > 0),
      updater_(p.updater),
      workers_(p.workers),
      trace_(p.trace),
      client_(p.everyone, tuning.servers, {.tables = shapes_of(p.tables), .partitions = tuning.partitions},
              {}, client_tables(p.tables, p.workers)),
      rows_(p.tables, p.updater, client_),
      dense_(p.buckets, p.updater, p.workers, average_by_all_reduce, p.trace) {}

void Hybrid::start(std::int64_t step, bool with_state) {
  dense_.start(step, with_state);
  if (workers_.rank() == Rank{0}) client_.start(step, with_state ? updater_.state() : Updater::State{});
  workers_.barrier("initial rows");
  rows_.fetch_all();
}

// The rows first: the communication thread goes on with the buckets meanwhile.
void Hybrid::finish_step() {
  const auto begin = Clock::now();
  if (has_tables_) rows_.finish_step();
  const auto end = Clock::now();
  trace_.add(observe::Lane::waiting, "rows", begin, end);
  dense_.finish_step();
  times_ = dense_.times();
  times_.busy += client_.take_busy_time();
  times_.exposed += end - begin;
}

void Hybrid::fetch_state() {
  rows_.fetch_all();
  client_.fetch_state(updater_.state());
}

void Hybrid::finish(Afterwards afterwards) {
  dense_.finish(afterwards);
  client_.leave();
  workers_.barrier("the end");
  workers_.rank() == Rank{0} ? fetch_state() : rows_.fetch_all();
  workers_.barrier("the end");  // what the servers tell next is all of it
  reports_ = client_.say_goodbye(afterwards == Afterwards::another_session);
}

nlohmann::json Hybrid::report() const {
  return combine_reports(reports_);
}

}  // namespace tutti::exchange
