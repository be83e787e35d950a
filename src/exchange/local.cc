// No exchange at all: one worker, its own gradients.
#include "exchange/bucket_walk.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"
#include "exchange/updater.h"

namespace tutti::exchange {

namespace {

class Local final : public Exchange {
 public:
  explicit Local(const Parts& parts) : parts_(parts), walk_(parts.buckets) {}

  void start(std::int64_t, bool) override {}
  void on_gradient(grad::ParamId) override {}
  void finish_phase(std::size_t phase) override {
    walk_.finish_phase(phase, [this](std::size_t bucket) { apply(bucket); });
  }
  void finish_step() override {
    walk_.finish_step([this](std::size_t bucket) { apply(bucket); });
  }
  void finish(Afterwards) override {}

 private:
  // Of shards the mean, as all other strategies form it.
  void apply(std::size_t bucket) {
    if (parts_.shards == nullptr) return parts_.updater.apply_own(bucket);
    parts_.shards->complete(bucket);
    parts_.updater.finite().own_gradient(bucket);
    const auto places = parts_.shards->places(bucket);
    parts_.workers.average_shards(collectives::Operation::all_reduce, {parts_.shards->tree(), places});
    parts_.updater.apply(bucket);
  }

  const Parts parts_;
  BucketWalk walk_;
};

}  // namespace

Strategy local() {
  return {.name = "local",
          .summary = "one worker, no exchange",
          .one_worker_only = true,
          .takes_shards = true,
          .takes_uneven_inputs = true,
          .compared_by_default = true,
          .make = [](const Parts& p, const Tuning&) { return std::make_unique<Local>(p); }};
}

}  // namespace tutti::exchange
