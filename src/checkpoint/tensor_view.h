// A tensor as files and digests see it: a name, a type, a shape and bytes that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/dtype.h"

namespace tutti::checkpoint {

// Elements are little-endian and in row-major order. The bytes need not be aligned to the element's size.
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size() / size_of(dtype)); }
};

// The tensors by name, byte for byte as std::string compares.
std::vector<TensorView> in_name_order(std::span<const TensorView> tensors);

// SHA-256 over all the tensors, whatever order they come in. For each tensor in name order it takes: the
// length of the name (u64), the name, the type's name as in base/dtype.h ("float32"), the rank (u64), each
// dimension (i64), the bytes. Numbers are little-endian. to_hex of it is `parameters_sha256` in summary.json.
Digest parameters_digest(std::span<const TensorView> tensors);

// The name as JSON text in ASCII, cut when long: a name out of a strange file cannot break a line.
std::string quoted(const std::string& name);
// The same for a table: without quotes where the name is harmless.
std::string printable(const std::string& name);

// "[64, 3, 7, 7]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace tutti::checkpoint
