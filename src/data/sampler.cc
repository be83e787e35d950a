#include "data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace tutti::data {

std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch, std::size_t samples) {
  TUTTI_CHECK(samples <= std::numeric_limits<std::uint32_t>::max());
  std::vector<std::uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0U);
  SplitMix64 random(mix_seed({seed, epoch}));
  for (std::size_t left = samples; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

std::size_t steps_per_epoch(std::size_t samples, std::size_t batch, std::size_t workers) {
  TUTTI_CHECK(batch > 0 && workers > 0);
  const std::size_t global = batch * workers;
  return (samples + global - 1) / global;
}

Share share_of(std::size_t count, std::size_t parts, std::size_t part) {
  TUTTI_CHECK(part < parts, "part {} of {}", part, parts);
  const std::size_t first = count * part / parts;
  return {first, count * (part + 1) / parts - first};
}

Share global_share(std::size_t samples, std::size_t batch, std::size_t workers, std::size_t step_in_epoch) {
  TUTTI_CHECK(step_in_epoch < steps_per_epoch(samples, batch, workers), "step {}", step_in_epoch);
  const std::size_t first = step_in_epoch * batch * workers;
  return {first, std::min(batch * workers, samples - first)};
}

Share share_of_step(std::size_t samples, std::size_t batch, std::size_t workers, std::size_t rank,
                    std::size_t step_in_epoch) {
  const Share global = global_share(samples, batch, workers, step_in_epoch);
  const Share mine = share_of(global.count, workers, rank);
  return {global.first + mine.first, mine.count};
}

}  // namespace tutti::data
