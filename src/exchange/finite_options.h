// What is done about NaN and infinite numbers (exchange/finite_guard.h).
#pragma once

#include "base/rank.h"

namespace tutti::exchange {

enum class OnNonFinite { stop, skip };

struct FiniteOptions {
  OnNonFinite policy = OnNonFinite::stop;
  Rank rank{};             // who looks
  int summed_over = 1;     // gradients that are added up: those of workers, or of shards
  bool by_shards = false;  // gradients are looked at shard by shard, before any are added up
};

}  // namespace tutti::exchange
