// libtorch's random numbers, of which a process has one source.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <mutex>

namespace tutti::train {

// While it lives, what its thread draws follows from the seed alone, also where ranks are threads of one
// process: blocks until no other one lives. Who waits for other ranks meanwhile pauses it. A thread has one
// at a time.
class ScopedSeed {
 public:
  explicit ScopedSeed(std::uint64_t seed);
  ~ScopedSeed();
  ScopedSeed(const ScopedSeed&) = delete;
  ScopedSeed& operator=(const ScopedSeed&) = delete;

 private:
  friend class PausedSeed;
  std::unique_lock<std::mutex> alone_;
};

// While it lives, others may draw. Then its thread's seed, if it has one, goes on from where it was.
class PausedSeed {
 public:
  PausedSeed();
  ~PausedSeed();
  PausedSeed(const PausedSeed&) = delete;
  PausedSeed& operator=(const PausedSeed&) = delete;

 private:
  torch::Tensor source_;  // as it was
};

}  // namespace tutti::train
