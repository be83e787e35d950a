#include "data/loader.h"

#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "data/sampler.h"

namespace tutti::data {

Loader::Loader(const Samples& samples, const LoaderPlan& plan)
    : samples_(samples),
      plan_(plan),
      steps_per_epoch_(steps_per_epoch(samples.size(), plan.batch, plan.parts)) {
  TUTTI_CHECK(samples.size() > 0 && plan.first_part < plan.last_part && plan.last_part <= plan.parts,
              "{} samples, parts {} to {} of {}", samples.size(), plan.first_part, plan.last_part,
              plan.parts);
  if (plan.augment.any()) augment_.emplace(plan.augment, samples.fields(), plan.seed);
  for (Slot& slot : slots_) {
    const std::size_t most = (plan.last_part - plan.first_part) * plan.batch;
    for (const Field& field : samples.fields()) slot.fields.emplace_back(most * field.bytes());
  }
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Loader::next() {
  TUTTI_CHECK(has_next(), "no step after {}", plan_.end_step);
  std::unique_lock lock(mutex_);
  // The last batch stays: a caller that looks one step ahead still uses it beside the one that it gets now.
  released_ = taken_ > 0 ? taken_ - 1 : 0;
  changed_.notify_all();
  changed_.wait(lock, [this] { return made_ > taken_ || failure_ != nullptr; });
  if (made_ == taken_) std::rethrow_exception(failure_);
  return slots_[taken_++ % kSlots].batch;
}

void Loader::run() {
  try {
    name_thread("tutti-loader");
    std::uint64_t made = 0;
    for (std::uint64_t step = plan_.first_step; step < plan_.end_step; ++step) {
      if (!wait_for_room(made)) return;
      fill_slot(slots_[made % kSlots], step);
      ++made;
      {
        const std::lock_guard lock(mutex_);
        made_ = made;
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

bool Loader::wait_for_room(std::uint64_t made) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || made < released_ + kSlots; });
  return !stop_;
}

void Loader::fill_slot(Slot& slot, std::uint64_t step) {
  const std::uint64_t epoch = step / steps_per_epoch_;
  const std::size_t step_in_epoch = step % steps_per_epoch_;
  if (order_.empty() || epoch != order_epoch_) {
    order_ = epoch_order(plan_.seed, epoch, samples_.size());
    order_epoch_ = epoch;
  }
  const std::size_t samples = samples_.size();
  std::vector<std::size_t> parts;
  Share share;
  for (std::size_t part = plan_.first_part; part < plan_.last_part; ++part) {
    const Share one = share_of_step(samples, plan_.batch, plan_.parts, part, step_in_epoch);
    if (parts.empty()) share.first = one.first;
    share.count += one.count;
    parts.push_back(one.count);
  }
  std::vector<std::span<std::byte>> into;
  for (std::size_t f = 0; f < slot.fields.size(); ++f) {
    into.push_back(slot.fields[f].span().first(share.count * samples_.fields()[f].bytes()));
  }
  const auto indices = std::span(order_).subspan(share.first, share.count);
  samples_.decode(indices, into);
  if (augment_) (*augment_)(epoch, indices, into);
  const Share global = global_share(samples, plan_.batch, plan_.parts, step_in_epoch);
  slot.samples.assign(indices.begin(), indices.end());
  slot.batch = {
      {into.begin(), into.end()}, share.count, global.count, step, epoch, slot.samples, std::move(parts)};
}

}  // namespace tutti::data
