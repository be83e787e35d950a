#include "exchange/hogwild.h"

#include "base/error.h"
#include "exchange/broadcast.h"

namespace tutti::exchange {

Hogwild::Hogwild(grad::Buckets& buckets, Updater& updater, net::Transport& transport,
                 collectives::Communicator& all)
    : buckets_(buckets), updater_(updater), all_(all) {
  net::PeerMemory* memory = transport.peer_memory();
  if (memory == nullptr) throw ConfigError("--strategy hogwild needs shared memory: --transport shm");
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const std::size_t count = buckets.parameters(b).size();
    const auto mine = all.allocate(count * sizeof(float));
    const auto offset = mine.data() - memory->arena(all.rank()).data();
    shared_.emplace_back(reinterpret_cast<float*>(memory->arena(Rank{0}).data() + offset), count);
  }
}

void Hogwild::start(std::int64_t step, bool with_state) {
  steps_ = step;
  start_like_first(all_, buckets_, updater_, with_state);
  // Rank 0 brings its values along; the others come when they are there.
  const bool first = all_.rank() == Rank{0};
  if (!first) all_.barrier("shared parameters");
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_.move_parameters(b, shared_[b], first);
  if (first) all_.barrier("shared parameters");
}

void Hogwild::finish_phase(std::size_t phase) {
  walk_.finish_phase(phase, [this](std::size_t bucket) { updater_.apply_own(bucket); });
}

void Hogwild::finish_step() {
  walk_.finish_step([this](std::size_t bucket) { updater_.apply_own(bucket); });
  ++steps_;
}

}  // namespace tutti::exchange
