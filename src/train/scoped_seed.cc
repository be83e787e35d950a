#include "train/scoped_seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

namespace tutti::train {
namespace {

std::mutex& source() {
  static std::mutex mutex;
  return mutex;
}

thread_local ScopedSeed* of_this_thread = nullptr;

}  // namespace

ScopedSeed::ScopedSeed(std::uint64_t seed) : alone_(source()) {
  torch::manual_seed(seed);
  of_this_thread = this;
}

ScopedSeed::~ScopedSeed() {
  of_this_thread = nullptr;
}

PausedSeed::PausedSeed() {
  if (of_this_thread == nullptr) return;
  source_ = at::detail::getDefaultCPUGenerator().get_state();
  of_this_thread->alone_.unlock();
}

PausedSeed::~PausedSeed() {
  if (of_this_thread == nullptr) return;
  of_this_thread->alone_.lock();
  at::Generator source = at::detail::getDefaultCPUGenerator();  // a handle
  source.set_state(source_);
}

}  // namespace tutti::train
