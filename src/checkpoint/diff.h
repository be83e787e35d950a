// Where two checkpoints differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/elements.h"
#include "checkpoint/tensor_view.h"

namespace tutti::checkpoint {

// Where an element of this number, in row-major order, is in a tensor: 17 in a shape of [2, 3, 5] is
// "[1, 0, 2]".
std::string place_text(std::int64_t element, const std::vector<std::int64_t>& shape);

enum class Difference { none, only_in_first, only_in_second, dtype, shape, values };

// A tensor's type and shape, without its bytes.
struct TensorKind {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

struct TensorDiff {
  std::string name;
  Difference difference = Difference::none;
  std::optional<TensorKind> first;   // none if only in the second
  std::optional<TensorKind> second;  // none if only in the first
  std::int64_t elements = 0;         // of the first, or of the only one
  ElementDifferences values;         // where types and shapes agree
};

// Something that the bits of a run depend on, and what it was for each of the two.
struct OtherArithmetic {
  std::string what;
  std::string first, second;
};

struct Diff {
  std::vector<TensorDiff> tensors;               // every tensor of either, in name order
  std::vector<OtherArithmetic> arithmetic = {};  // where both say what they were computed with
  bool identical() const;                        // same names, types, shapes and bits
};

Diff diff(std::span<const TensorView> first, std::span<const TensorView> second);

// The models; where both have an optimizer, its tensors follow, named "optimizer: NAME".
Diff diff(const Checkpoint& first, const Checkpoint& second);

// A table of the tensors that differ, a line that sums up, and the likely reason where one is known; one line
// if none differs.
std::string render(const Diff& diff);

}  // namespace tutti::checkpoint
