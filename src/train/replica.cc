#include "train/replica.h"

namespace tutti::train {
namespace {

std::vector<std::string> trained_by(const std::vector<models::Phase>& phases) {
  std::vector<std::string> names;
  for (const models::Phase& p : phases) names.push_back(p.trains);
  return names;
}

}  // namespace

Replica::Replica(const ReplicaContext& s, const std::vector<std::string>& by_rows)
    : tables(s.model, by_rows),
      buckets(
          s.model, s.bucket_bytes, [&](std::size_t bytes) { return s.workers.allocate(bytes); }, tables,
          trained_by(s.phases)),
      updater(buckets, tables, s.tuning.servers.optimizer, s.tuning.clip_norm,
              exchange::finite_options(s.strategy, s.tuning, s.workers)),
      exchange(exchange::make_exchange(s.strategy, {buckets, tables, updater, s.everyone, s.workers, s.trace},
                                       s.tuning)) {}

}  // namespace tutti::train
