// Collectives of a group on tensors, done at once: what the works of the backend run.
#pragma once

#include "c10d_types.h"
#include "group.h"

namespace tutti::torch_backend {

// As the same call of c10d, on its caller's thread. Tensors are dense and on the CPU, of any strides.

void all_reduce_sparse(Group& group, at::Tensor tensor, collectives::ReduceOp op);
// Tensors of one type travel together.
void all_reduce_coalesced(Group& group, const Tensors& tensors, collectives::ReduceOp op);
void broadcast(Group& group, const at::Tensor& tensor, int root);
void reduce(Group& group, const at::Tensor& tensor, collectives::ReduceOp op, int root);
void all_gather(Group& group, const at::Tensor& input, const Tensors& outputs);
void gather(Group& group, const at::Tensor& input, const Tensors& outputs, int root);
void scatter(Group& group, const Tensors& inputs, const at::Tensor& output, int root);
// inputs[r] is added up at rank r; their sizes may differ.
void reduce_scatter(Group& group, const Tensors& inputs, const at::Tensor& output, collectives::ReduceOp op);
void all_to_all(Group& group, const Tensors& inputs, const Tensors& outputs);

// Equal parts of a tensor, along its memory, one a rank. Throws ConfigError if they would not be equal.
Tensors equal_parts(const at::Tensor& whole, int parts);

}  // namespace tutti::torch_backend
