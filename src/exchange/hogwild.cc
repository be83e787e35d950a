#include "exchange/hogwild.h"

#include "base/error.h"
#include "exchange/broadcast.h"

namespace tutti::exchange {

Hogwild::Hogwild(grad::Buckets& buckets, Updater& updater, net::Transport& transport,
                 collectives::Collectives& all, Clock::duration timeout)
    : buckets_(buckets), updater_(updater), board_(transport.board()), all_(all), timeout_(timeout) {
  net::PeerMemory* memory = transport.peer_memory();
  if (memory == nullptr) throw ConfigError("--strategy hogwild needs shared memory: --transport shm");
  const auto of_rank_0 = [&](std::size_t bytes) {
    const auto mine = all.allocate(bytes);
    return memory->arena(Rank{0}).data() + (mine.data() - memory->arena(all.rank()).data());
  };
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const std::size_t count = buckets.parameters(b).size();
    shared_.emplace_back(reinterpret_cast<float*>(of_rank_0(count * sizeof(float))), count);
  }
  gradients_ = reinterpret_cast<std::atomic<std::int64_t>*>(of_rank_0(sizeof *gradients_));
}

void Hogwild::start(std::int64_t step, bool with_state) {
  start_like_first(all_, buckets_, updater_, with_state);
  // Rank 0 brings its values along; the others come when they are there.
  const bool first = all_.rank() == Rank{0};
  if (first) gradients_->store(step * all_.world());
  if (!first) all_.barrier("shared parameters");
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_.move_parameters(b, shared_[b], first);
  if (first) all_.barrier("shared parameters");
}

void Hogwild::finish_phase(std::size_t phase) {
  walk_.finish_phase(phase, [this](std::size_t bucket) { updater_.apply_own(bucket); });
}

void Hogwild::finish_step() {
  walk_.finish_step([this](std::size_t bucket) { updater_.apply_own(bucket); });
  gradients_->fetch_add(1);
}

void Hogwild::finish(Afterwards /*afterwards*/) {
  board_.barrier_of_survivors(all_.rank(), all_.world(), 1, timeout_, "the end");
}

Strategy hogwild() {
  return {.name = "hogwild",
          .summary = "shared parameters, no locks; one host",
          .asynchronous = true,
          .shares_memory = true,
          .takes_uneven_inputs = true,
          .other_way = [](const Tuning&) { return std::string("shared parameters"); },
          .make =
              [](const Parts& p, const Tuning& tuning) {
                return std::make_unique<Hogwild>(p.buckets, p.updater, p.everyone, p.workers,
                                                 tuning.servers.timeout);
              }};
}

}  // namespace tutti::exchange
