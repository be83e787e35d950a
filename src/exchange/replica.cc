#include "exchange/replica.h"

namespace tutti::exchange {
namespace {

int places_of(const ReplicaContext& c) {
  return c.tuning.shards > 0 ? ShardTree(c.tuning.shards).places_of(c.workers.world()) : 1;
}

std::optional<ShardGradients> shards_of(const ReplicaContext& c, grad::Buckets& buckets, Updater& updater) {
  if (c.tuning.shards == 0) return std::nullopt;
  return std::optional<ShardGradients>(std::in_place, buckets, c.tuning.shards, c.workers.rank(),
                                       c.workers.world(), &updater.finite());
}

}  // namespace

Replica::Replica(const ReplicaContext& c, std::span<const std::string> by_rows, const Parameters& parameters,
                 const MakeUpdate& make_update)
    : tables(c.module, by_rows),
      buckets(
          parameters(tables), c.bucket_bytes, [&](std::size_t bytes) { return c.workers.allocate(bytes); },
          places_of(c)),
      updater(buckets, tables, make_update(buckets), c.tuning.clip_norm,
              finite_options(c.strategy, c.tuning, c.workers)),
      shards(shards_of(c, buckets, updater)),
      exchange(make_exchange(
          c.strategy, {buckets, tables, updater, c.everyone, c.workers, c.trace, shards ? &*shards : nullptr},
          c.tuning)) {}

void Replica::set_aside_shard(std::size_t phase) {
  shards->set_aside(phase);
  if (auto* const rows = exchange->rows()) rows->set_aside();
}

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
