// Tensors of a GPU go through the host's memory, until there are collectives of ours that read a GPU's:
// copied here before a work is submitted, and back when it is done.
#pragma once

#include <utility>
#include <vector>

#include "c10d_types.h"

namespace tutti::torch_backend {

// One for a work; its caller's thread uses it.
class HostCopies {
 public:
  // Whether there is a tensor that needs them.
  static bool needed(const Tensors& tensors);

  // What they hold when the caller's current stream has come to here. Block until then.
  Tensors inputs(const Tensors& tensors);
  // Room for what they will hold.
  Tensors outputs(const Tensors& tensors);
  // Both.
  Tensors changed(const Tensors& tensors);

  // A handle of `work` that is complete when the outputs have been copied back as well. A GPU's kernels that
  // start after it was waited for find them, on any stream.
  WorkPtr copy_back_after(const WorkPtr& work);

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> back_;  // from, to
};

}  // namespace tutti::torch_backend
