#include "train/replica.h"

namespace tutti::train {

Replica::Replica(const Surroundings& s, const std::vector<std::string>& by_rows)
    : tables(s.model, by_rows),
      buckets(
          s.model, s.bucket_bytes, [&](std::size_t bytes) { return s.workers.allocate(bytes); }, tables),
      updater(buckets, tables, s.tuning.servers.optimizer, s.tuning.clip_norm),
      exchange(exchange::make_exchange(s.strategy, {buckets, tables, updater, s.everyone, s.workers, s.trace},
                                       s.tuning)) {}

}  // namespace tutti::train
