#include "reducible.h"

#include "base/error.h"

namespace tutti::torch_backend {
namespace {

at::ScalarType travels_as(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kBFloat16:
      return type;
    case at::kBool:
    case at::kByte:
    case at::kChar:
    case at::kShort:
      return at::kInt;
    default:
      throw ConfigError(fmt::format("backend tutti: tensors of {} cannot be reduced", c10::toString(type)));
  }
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::f32;
    case at::kDouble:
      return DType::f64;
    case at::kLong:
      return DType::i64;
    case at::kHalf:
      return DType::f16;
    case at::kBFloat16:
      return DType::bf16;
    default:
      return DType::i32;
  }
}

at::Tensor as_real(const at::Tensor& tensor, collectives::ReduceOp op) {
  if (!tensor.is_complex()) return tensor;
  if (op != collectives::ReduceOp::sum && op != collectives::ReduceOp::average)
    throw ConfigError(fmt::format("backend tutti: there is no {} of complex tensors", name_of(op)));
  return at::view_as_real(tensor);
}

}  // namespace

collectives::ReduceOp reduce_op(const c10d::ReduceOp& op) {
  using Ours = collectives::ReduceOp;
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return Ours::sum;
    case c10d::ReduceOp::AVG:
      return Ours::average;
    case c10d::ReduceOp::PRODUCT:
      return Ours::product;
    case c10d::ReduceOp::MIN:
      return Ours::min;
    case c10d::ReduceOp::MAX:
      return Ours::max;
    case c10d::ReduceOp::BAND:
      return Ours::bit_and;
    case c10d::ReduceOp::BOR:
      return Ours::bit_or;
    case c10d::ReduceOp::BXOR:
      return Ours::bit_xor;
    default:
      throw ConfigError("backend tutti: PREMUL_SUM is not supported; multiply before the sum");
  }
}

void require_dense_on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined()) throw ConfigError("backend tutti: a tensor is undefined");
  if (tensor.device().is_cpu() && tensor.layout() == at::kStrided) return;
  throw ConfigError(
      fmt::format("backend tutti: a tensor is {} and on {}; it must be dense, on the CPU or on CUDA",
                  c10::str(tensor.layout()), tensor.device().str()));
}

Reducible::Reducible(const at::Tensor& tensor, collectives::ReduceOp op)
    : target_((require_dense_on_cpu(tensor), as_real(tensor, op))),
      scalar_(travels_as(target_.scalar_type())),
      type_(dtype_of(scalar_)) {
  using Op = collectives::ReduceOp;
  const bool bitwise = op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor;
  if (bitwise && at::isFloatingType(scalar_))
    throw ConfigError(
        fmt::format("backend tutti: there is no {} of {}", name_of(op), c10::toString(scalar_)));
}

collectives::Buffer Reducible::load() {
  flat_ = target_.to(scalar_).contiguous();  // itself, where it is that already
  return loaded();
}

void Reducible::store() {
  if (flat_.data_ptr() != target_.data_ptr()) target_.copy_(flat_);
  flat_.reset();
}

}  // namespace tutti::torch_backend
