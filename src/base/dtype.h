// The element types that travel and are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

enum class DType : std::uint8_t { f32, f64, i32, i64, bf16, f16 };

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::bf16:
    case DType::f16:
      return 2;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
  }
  return "?";
}

}  // namespace tutti
