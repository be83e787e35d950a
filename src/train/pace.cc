#include "train/pace.h"

#include <algorithm>
#include <thread>

#include "base/random.h"

namespace tutti::train {
namespace {

constexpr std::size_t kNoise = 1 << 16;

constexpr auto kTick = std::chrono::milliseconds(100);

}  // namespace

void sleep_until(Clock::time_point when, const std::function<void()>& on_tick) {
  while (Clock::now() + kTick < when) {
    std::this_thread::sleep_for(kTick);
    on_tick();
  }
  std::this_thread::sleep_until(when);
}

Pacer::Pacer(grad::Buckets& buckets, const grad::Tables& tables, Clock::duration step, std::uint64_t seed)
    : buckets_(buckets), tables_(tables), step_(step), rows_(tables.size()), noise_(kNoise) {
  SplitMix64 random(seed);
  for (float& x : noise_) x = (static_cast<float>(random.below(2001)) - 1000.0F) * 1e-6F;
}

void Pacer::begin_rehearsal() {
  rehearsing_ = true;
  began_ = Clock::now();
}

void Pacer::note(grad::ParamId id) {
  noted_.emplace_back(id, Clock::now());
}

void Pacer::note_table(std::size_t table) {
  noted_.emplace_back(table, Clock::now());
  torch::Tensor weight = tables_.weight(table);
  rows_[table] = weight.grad();
  weight.mutable_grad().reset();
}

void Pacer::end_rehearsal() {
  const std::chrono::duration<double> whole = Clock::now() - began_;
  for (const auto& [id, when] : noted_)
    cues_.push_back({id, std::chrono::duration<double>(when - began_) / whole});
  buckets_.zero_gradients();
  rehearsing_ = false;
}

void Pacer::fill(grad::ParamId id) {
  const std::size_t b = buckets_.bucket_of(id);
  const auto& slices = buckets_.layout(b).slices;
  const auto slice = *std::ranges::find(slices, id, &grad::Slice::param);
  auto rest = buckets_.gradients(b).subspan(slice.first, slice.count);
  while (!rest.empty()) {
    const std::size_t n = std::min(rest.size(), noise_.size() - next_noise_);
    std::copy_n(noise_.begin() + static_cast<std::ptrdiff_t>(next_noise_), n, rest.begin());
    next_noise_ = (next_noise_ + n) % noise_.size();
    rest = rest.subspan(n);
  }
}

void Pacer::run(const std::function<void(grad::ParamId)>& announce,
                const std::function<void(std::size_t)>& announce_table,
                const std::function<void()>& on_tick) {
  const auto begin = Clock::now();
  for (const Cue& cue : cues_) {
    const auto* param = std::get_if<grad::ParamId>(&cue.what);
    if (param != nullptr) fill(*param);
    sleep_until(begin + std::chrono::duration_cast<Clock::duration>(step_ * cue.at), on_tick);
    if (param != nullptr) {
      announce(*param);
    } else {
      const std::size_t table = std::get<std::size_t>(cue.what);
      torch::Tensor weight = tables_.weight(table);
      weight.mutable_grad() = rows_[table];
      announce_table(table);
    }
  }
  sleep_until(begin + step_, on_tick);
}

}  // namespace tutti::train
