#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "exchange/broadcast.h"
#include "exchange/departures.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"
#include "exchange/updater.h"
#include "library/workers.h"
#include "tutti/strategy.h"

namespace tutti {
namespace {

using exchange::Afterwards;

torch::Tensor tensor_over(std::span<float> memory) {
  return torch::from_blob(memory.data(), {static_cast<std::int64_t>(memory.size())});
}

// A user's strategy as one of ours.
class OwnStrategy final : public exchange::Exchange, public exchange::HasFigures, private Training {
 public:
  OwnStrategy(const exchange::Parts& parts, const std::string& name, const MakeStrategy& make)
      : parts_(parts),
        name_(name),
        departures_(parts.buckets),
        workers_(parts.workers, name),
        updated_(parts.buckets.size()),
        strategy_(make(*this)) {
    if (!strategy_) throw ConfigError(fmt::format("nothing was made for strategy '{}'", name));
  }

  void start(std::int64_t /*step*/, bool with_state) override {
    start_like_first(parts_.workers, parts_.buckets, parts_.updater, with_state);
    sent_before_ = parts_.workers.bytes_sent();
    strategy_->start();
  }

  void on_gradient(grad::ParamId id) override {
    if (departures_.arrived(id)) departures_.leave_full([this](std::size_t bucket) { hand_over(bucket); });
  }

  void finish_phase(std::size_t phase) override {
    departures_.leave_phase(phase, [this](std::size_t bucket) { hand_over(bucket); });
  }

  void finish_step() override {
    const auto begin = Clock::now();
    departures_.leave_rest([this](std::size_t bucket) { hand_over(bucket); });
    decide_whether_to_skip();
    const torch::NoGradGuard no_grad;
    strategy_->finish_step();
    require_all_updated_or_none();
    departures_.reset();
    const auto end = Clock::now();
    times_ = {.busy = end - begin, .exposed = end - begin};
  }

  void finish(Afterwards /*afterwards*/) override {
    const torch::NoGradGuard no_grad;
    strategy_->finish();
  }

  exchange::ExchangeTimes times() const override { return times_; }
  std::uint64_t bytes_sent() const override { return parts_.workers.bytes_sent() - sent_before_; }

 private:
  void hand_over(std::size_t bucket) {
    const torch::NoGradGuard no_grad;
    usable_ = parts_.updater.finite().own_gradient(bucket) && usable_;
    strategy_->on_gradients(static_cast<int>(bucket));
  }

  // Everybody's gradients are known now. What was updated on the way has waited for this.
  void decide_whether_to_skip() {
    if (!parts_.updater.finite().skips()) return;
    const bool usable = std::exchange(usable_, true);
    if (!exchange::true_for_all(parts_.workers, usable, "whether to skip the step")) parts_.updater.veto();
    decided_ = true;
    for (const std::size_t bucket : std::exchange(early_, {})) parts_.updater.apply(bucket);
  }

  void require_all_updated_or_none() {
    const auto updated = std::ranges::count(updated_, true);
    if (updated > 0 && updated < buckets() && parts_.updater.waits_for_all()) {
      throw ConfigError(fmt::format(
          "strategy '{}' has updated {} of {} buckets; where gradients are clipped, steps may be skipped or "
          "the optimizer is called as it is, it must update all of them or none",
          name_, updated, buckets()));
    }
    updated_.assign(updated_.size(), false);
    decided_ = false;
  }

  int buckets() const override { return static_cast<int>(parts_.buckets.size()); }
  torch::Tensor gradients(int bucket) override {
    return tensor_over(parts_.buckets.gradients(index(bucket)));
  }
  torch::Tensor parameters(int bucket) override {
    return tensor_over(parts_.buckets.parameters(index(bucket)));
  }
  void update(int bucket) override {
    const std::size_t b = index(bucket);
    if (updated_[b]) throw ConfigError(fmt::format("strategy '{}' updates bucket {} twice", name_, bucket));
    updated_[b] = true;
    if (parts_.updater.finite().skips() && !decided_) {
      early_.push_back(b);
    } else {
      parts_.updater.apply(b);
    }
  }
  Workers& workers() override { return workers_; }

  std::size_t index(int bucket) const {
    if (bucket < 0 || bucket >= buckets()) {
      throw ConfigError(fmt::format("there is no bucket {}, but {} of them", bucket, buckets()));
    }
    return static_cast<std::size_t>(bucket);
  }

  const exchange::Parts parts_;
  const std::string name_;
  exchange::Departures departures_;
  library::CollectiveWorkers workers_;
  std::uint64_t sent_before_ = 0;
  exchange::ExchangeTimes times_;
  std::vector<bool> updated_;       // by bucket, in this step
  bool usable_ = true;              // all gradients of this process are finite so far
  bool decided_ = false;            // whether this step is skipped
  std::vector<std::size_t> early_;  // updated before that
  const std::unique_ptr<Strategy> strategy_;
};

}  // namespace

void add_strategy(const std::string& name, const std::string& summary, MakeStrategy make) {
  if (!make) throw ConfigError(fmt::format("nothing makes strategy '{}'", name));
  exchange::add_strategy(
      {.name = name,
       .summary = summary,
       .make = [name, make = std::move(make)](const exchange::Parts& parts, const exchange::Tuning&) {
         return std::make_unique<OwnStrategy>(parts, name, make);
       }});
}

}  // namespace tutti
