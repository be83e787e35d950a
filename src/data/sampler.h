// Which samples make which batch: pure functions of the seed, so that every worker knows without asking, and
// a run that resumes or changes its number of workers sees the samples it would have seen.
//
// An epoch is one shuffled order of all samples. Step s of it takes the global batch
//
//   order[s * G, min((s + 1) * G, samples))      G = batch * workers
//
// and cuts it into one contiguous part for each worker. The last global batch of an epoch may be short; it is
// shared as evenly as the others, so with few samples left a part may be empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::data {

struct Share {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const Share&) const = default;
};

// A permutation of 0 .. samples - 1, the same on every platform.
std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch, std::size_t samples);

// ceil(samples / (batch * workers)).
std::size_t steps_per_epoch(std::size_t samples, std::size_t batch, std::size_t workers);

// Part `part` of `parts` of [0, count); sizes differ by at most one. Cuts nest: part p of n is parts p*k ..
// p*k + k-1 of n*k, so workers hold whole numbers of shards where their number divides that of the shards.
Share share_of(std::size_t count, std::size_t parts, std::size_t part);

// Where the global batch of a step lies in the epoch's order.
Share global_share(std::size_t samples, std::size_t batch, std::size_t workers, std::size_t step_in_epoch);

// Where `rank`'s part of it lies.
Share share_of_step(std::size_t samples, std::size_t batch, std::size_t workers, std::size_t rank,
                    std::size_t step_in_epoch);

}  // namespace tutti::data
