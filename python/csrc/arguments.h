// What callers of the backend may pass. All throw ConfigError where it is something else.
#pragma once

#include <cstdint>
#include <vector>

#include "c10d_types.h"

namespace tutti::torch_backend {

// The one tensor of a list that must hold one.
const at::Tensor& only(const Tensors& tensors);
// Likewise, and it is dense and on the CPU.
const at::Tensor& only_dense(const Tensors& tensors);

// The tensors of a list of one list, which holds one a rank.
const Tensors& one_a_rank(const std::vector<Tensors>& lists, int world);

// The others are of this type and have as many elements.
void require_same_bytes(const at::Tensor& one, const Tensors& others);

void require_root(std::int64_t root, int world);

// Rows of the first dimension, as many a rank as `splits` says; equally many without it. Views, whatever the
// strides: what arrives in one is in the tensor.
Tensors split_rows(const at::Tensor& whole, std::vector<std::int64_t> splits, int world);

}  // namespace tutti::torch_backend
