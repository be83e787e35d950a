// libtorch's random numbers, of which a process has one source.
#pragma once

#include <cstdint>
#include <mutex>

namespace tutti::train {

// While it lives, what its thread draws follows from the seed alone, also where ranks are threads of one
// process: blocks until no other one lives. Who waits for other ranks meanwhile must not hold one.
class ScopedSeed {
 public:
  explicit ScopedSeed(std::uint64_t seed);

 private:
  const std::lock_guard<std::mutex> alone_;
};

}  // namespace tutti::train
