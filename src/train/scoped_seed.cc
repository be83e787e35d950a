#include "train/scoped_seed.h"

#include <torch/utils.h>

namespace tutti::train {
namespace {

std::mutex& source() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

ScopedSeed::ScopedSeed(std::uint64_t seed) : alone_(source()) {
  torch::manual_seed(seed);
}

}  // namespace tutti::train
