#include "exchange/replica.h"

namespace tutti::exchange {

Replica::Replica(const ReplicaContext& c, std::span<const std::string> by_rows, const Parameters& parameters,
                 const MakeUpdate& make_update)
    : tables(c.module, by_rows),
      buckets(parameters(tables), c.bucket_bytes,
              [&](std::size_t bytes) { return c.workers.allocate(bytes); }),
      updater(buckets, tables, make_update(buckets), c.tuning.clip_norm,
              finite_options(c.strategy, c.tuning, c.workers)),
      exchange(
          make_exchange(c.strategy, {buckets, tables, updater, c.everyone, c.workers, c.trace}, c.tuning)) {}

void Replica::announce(Announcing announcing) {
  announcing_ = std::move(announcing);
  if (!announcing_.around) announcing_.around = [](const std::function<void()>& announce) { announce(); };
  buckets.on_gradient([this](grad::ParamId id) {
    announcing_.around([&] {
      if (announcing_.gradient(id)) exchange->on_gradient(id);
    });
  });
  tables.on_gradient([this](std::size_t table) {
    announcing_.around([&] {
      if (announcing_.rows(table)) exchange->rows()->on_gradient(table);
    });
  });
}

}  // namespace tutti::exchange
