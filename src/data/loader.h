// Batches for training, decoded ahead of their use by a thread of their own.
//
// The thread fills a ring of four buffers: two are in the caller's hands, two are full or being filled.
// Nothing is allocated once it runs, but for each epoch's order.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "data/aligned_buffer.h"
#include "data/augment.h"
#include "data/samples.h"

namespace tutti::data {

// One rank's samples of one step. `count` may be zero in the last step of an epoch.
struct Batch {
  std::vector<std::span<const std::byte>> fields;  // count samples, one after another; on cache lines
  std::size_t count = 0;
  std::size_t global_count = 0;  // of all ranks together
  std::uint64_t step = 0;        // from the beginning of the run
  std::uint64_t epoch = 0;
  std::span<const std::uint32_t> samples{};  // which, in the data's own order
  std::vector<std::size_t> parts{};          // samples of each part that the rank takes; they make up `count`
};

// What a loader reads: this rank's parts of steps [first_step, end_step), counted from the beginning of the
// run. A global batch has a part for each worker; or more of them, of which a worker takes several.
struct LoaderPlan {
  std::uint64_t seed = 0;
  std::size_t batch = 1;       // samples of each part
  std::size_t parts = 1;       // of a global batch
  std::size_t first_part = 0;  // that this rank takes
  std::size_t last_part = 1;   // and up to before this one
  std::uint64_t first_step = 0;
  std::uint64_t end_step = 0;
  AugmentOptions augment{};
};

// One thread calls it. Begins to read at once; its destructor waits for at most one batch to be decoded.
class Loader {
 public:
  // `samples` outlives the loader. Throws ConfigError if they shall be augmented and are no images.
  Loader(const Samples& samples, const LoaderPlan& plan);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // False once next() has given the batch of step end_step - 1.
  bool has_next() const { return plan_.first_step + taken_ < plan_.end_step; }

  // Blocks until the batch is there. It stays valid until the second call after this one, so that a caller
  // can look one step ahead. Rethrows what the thread threw, after the batches that were good.
  Batch next();

 private:
  static constexpr std::size_t kSlots = 4;

  struct Slot {
    std::vector<AlignedBuffer<std::byte>> fields;
    std::vector<std::uint32_t> samples;
    Batch batch;
  };

  void run();
  bool wait_for_room(std::uint64_t made);
  void fill_slot(Slot& slot, std::uint64_t step);

  const Samples& samples_;
  const LoaderPlan plan_;
  const std::size_t steps_per_epoch_;
  std::optional<Augment> augment_;

  std::array<Slot, kSlots> slots_;
  std::vector<std::uint32_t> order_;  // of the epoch the thread is in
  std::uint64_t order_epoch_ = 0;
  std::uint64_t taken_ = 0;  // batches given to the caller, written by the caller's thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::uint64_t made_ = 0;      // batches filled
  std::uint64_t released_ = 0;  // batches the caller is done with
  bool stop_ = false;
  std::exception_ptr failure_;

  std::thread thread_;  // last, so that all it uses is there before it starts
};

}  // namespace tutti::data
