// What hooks and strategies move numbers with.
#pragma once

#include <torch/types.h>

#include "tutti/export.h"
#include "tutti/session.h"

namespace tutti {

// The processes that train one model. Every one of them makes the same calls, in the same order, with the
// same shapes and types. Calls throw where a process is lost.
class TUTTI_API Workers {
 public:
  virtual ~Workers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(torch::Tensor& tensor, ReduceOp op = ReduceOp::average) = 0;
  // Everybody's tensor, by rank, along a new first dimension.
  virtual torch::Tensor all_gather(const torch::Tensor& tensor) = 0;
  // Everybody's becomes that of `root`.
  virtual void broadcast(torch::Tensor& tensor, int root = 0) = 0;
};

}  // namespace tutti
