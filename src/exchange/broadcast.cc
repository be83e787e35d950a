#include "exchange/broadcast.h"

#include <algorithm>

namespace tutti::exchange {

void broadcast_from_first(collectives::Collectives& all, grad::Buckets& buckets,
                          const std::vector<std::span<float>>& flat, std::string_view label) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto staging = buckets.gradients(b);
    std::ranges::copy(flat[b], staging.begin());
    all.broadcast({staging.data(), staging.size(), DType::f32}, Rank{0}, label);
    std::ranges::copy(staging, flat[b].begin());
    std::ranges::fill(staging, 0.0F);
  }
}

void start_like_first(collectives::Collectives& all, grad::Buckets& buckets, Updater& updater,
                      bool with_state) {
  broadcast_from_first(all, buckets, buckets.all_parameters(), "initial weights");
  for (int s = 0; with_state && s < updater.slots(); ++s) {
    broadcast_from_first(all, buckets, updater.slot(s), "optimizer state");
  }
}

}  // namespace tutti::exchange
