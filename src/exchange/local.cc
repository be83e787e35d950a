// No exchange at all: one worker, its own gradients.
#include "exchange/bucket_walk.h"
#include "exchange/strategy.h"

namespace tutti::exchange {

namespace {

class Local final : public Exchange {
 public:
  Local(grad::Buckets& buckets, Updater& updater) : updater_(updater), walk_(buckets) {}

  void start(std::int64_t, bool) override {}
  void on_gradient(grad::ParamId) override {}
  void finish_phase(std::size_t phase) override {
    walk_.finish_phase(phase, [this](std::size_t bucket) { updater_.apply_own(bucket); });
  }
  void finish_step() override {
    walk_.finish_step([this](std::size_t bucket) { updater_.apply_own(bucket); });
  }
  void finish(Afterwards) override {}

 private:
  Updater& updater_;
  BucketWalk walk_;
};

}  // namespace

Strategy local() {
  return {
      .name = "local",
      .summary = "one worker, no exchange",
      .one_worker_only = true,
      .takes_uneven_inputs = true,
      .compared_by_default = true,
      .make = [](const Parts& p, const Tuning&) { return std::make_unique<Local>(p.buckets, p.updater); }};
}

}  // namespace tutti::exchange
