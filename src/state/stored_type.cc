#include "state/stored_type.h"

namespace tutti::state {

std::optional<DType> stored_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return DType::f32;
    case torch::kFloat64:
      return DType::f64;
    case torch::kInt64:
      return DType::i64;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kFloat16:
      return DType::f16;
    case torch::kInt32:
    case torch::kInt16:
    case torch::kInt8:
    case torch::kUInt8:
    case torch::kBool:
      return DType::i32;
    default:
      return std::nullopt;
  }
}

torch::ScalarType torch_type(DType type) {
  switch (type) {
    case DType::f32:
      return torch::kFloat32;
    case DType::f64:
      return torch::kFloat64;
    case DType::i32:
      return torch::kInt32;
    case DType::i64:
      return torch::kInt64;
    case DType::bf16:
      return torch::kBFloat16;
    case DType::f16:
      return torch::kFloat16;
  }
  return torch::kFloat32;
}

}  // namespace tutti::state
