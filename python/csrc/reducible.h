// A tensor as the engine reduces it: contiguous, of one of its types.
#pragma once

#include "c10d_types.h"
#include "collectives/collectives.h"

namespace tutti::torch_backend {

// Throws ConfigError for what the engine does not do.
collectives::ReduceOp reduce_op(const c10d::ReduceOp& op);

// Truth values and small integers travel as 32-bit integers and come back as what they were; complex numbers
// as pairs of real ones, which fits sums and averages alone.
class Reducible {
 public:
  // Throws ConfigError where this kind of tensor cannot be reduced so. The tensor's elements are not read
  // yet.
  Reducible(const at::Tensor& tensor, collectives::ReduceOp op);

  std::size_t count() const { return static_cast<std::size_t>(target_.numel()); }
  std::size_t bytes() const { return count() * size_of(type_); }
  DType type() const { return type_; }

  // The elements as they are now, in the tensor's own memory where that will do; valid until store(). The
  // result is put in their place.
  collectives::Buffer load();
  collectives::Buffer loaded() const { return {flat_.data_ptr(), count(), type_}; }
  // The tensor becomes what the buffer holds.
  void store();

 private:
  at::Tensor target_;
  at::ScalarType scalar_;  // as it travels
  DType type_;
  at::Tensor flat_;
};

// Where memory of a tensor begins, for tensors that are contiguous.
inline std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

// Throws ConfigError unless it is dense and on the CPU.
void require_dense_on_cpu(const at::Tensor& tensor);

}  // namespace tutti::torch_backend
