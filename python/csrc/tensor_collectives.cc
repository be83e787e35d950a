#include "tensor_collectives.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "reducible.h"

namespace tutti::torch_backend {
namespace {

std::vector<Bytes> bytes_of_all(const Tensors& tensors) {
  std::vector<Bytes> all;
  for (const at::Tensor& tensor : tensors) all.push_back(bytes_of(tensor));
  return all;
}

std::vector<ConstBytes> const_bytes_of_all(const Tensors& tensors) {
  std::vector<ConstBytes> all;
  for (const at::Tensor& tensor : tensors) all.push_back(bytes_of(tensor));
  return all;
}

Tensors contiguous(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.contiguous());
  return result;
}

// What was received for tensors that are not contiguous was received beside them.
void copy_back(const Tensors& from, const Tensors& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (from[i].data_ptr() != to[i].data_ptr()) to[i].copy_(from[i]);
  }
}

bool of_one_type(const Tensors& tensors) {
  return std::ranges::all_of(
      tensors, [&](const at::Tensor& t) { return t.scalar_type() == tensors.front().scalar_type(); });
}

void all_reduce(Group& group, const at::Tensor& tensor, collectives::ReduceOp op) {
  Reducible reducible(tensor, op);
  group.all_reduce(reducible.load(), op);
  reducible.store();
}

std::vector<std::int64_t> gather_numbers(Group& group, std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.world()));
  std::vector<Bytes> places;
  for (std::int64_t& number : all) places.push_back(std::as_writable_bytes(std::span(&number, 1)));
  group.all_gather(std::as_bytes(std::span(&mine, 1)), places);
  return all;
}

}  // namespace

void all_reduce_sparse(Group& group, at::Tensor tensor, collectives::ReduceOp op) {
  if (op != collectives::ReduceOp::sum)
    throw ConfigError(
        fmt::format("backend tutti: there is no {} of sparse tensors, only their sum", name_of(op)));
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor indices = mine.indices().contiguous();
  const at::Tensor values = mine.values().contiguous();
  Tensors all_indices;
  Tensors all_values;
  for (const std::int64_t count : gather_numbers(group, values.size(0))) {
    auto shape = values.sizes().vec();
    shape[0] = count;
    all_indices.push_back(at::empty({indices.size(0), count}, indices.options()));
    all_values.push_back(at::empty(shape, values.options()));
  }
  group.all_gather(bytes_of(indices), bytes_of_all(all_indices));
  group.all_gather(bytes_of(values), bytes_of_all(all_values));
  // Entries of the same place add up, in the order of ranks on every rank.
  const at::Tensor sum =
      at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values, 0), tensor.sizes(), tensor.options())
          .coalesce();
  tensor.copy_(sum);
}

void all_reduce_coalesced(Group& group, const Tensors& tensors, collectives::ReduceOp op) {
  if (!of_one_type(tensors)) {
    for (const at::Tensor& tensor : tensors) all_reduce(group, tensor, op);
    return;
  }
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  const at::Tensor together = at::cat(flat);
  all_reduce(group, together, op);
  std::int64_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(together.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += tensor.numel();
  }
}

void broadcast(Group& group, const at::Tensor& tensor, int root) {
  const at::Tensor flat = tensor.contiguous();
  group.broadcast(bytes_of(flat), root);
  copy_back({flat}, {tensor});
}

void reduce(Group& group, const at::Tensor& tensor, collectives::ReduceOp op, int root) {
  // Others than the root keep what they have.
  const at::Tensor used = group.rank() == root ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
  Reducible reducible(used, op);
  group.reduce(reducible.load(), op, root);
  reducible.store();
}

void all_gather(Group& group, const at::Tensor& input, const Tensors& outputs) {
  const Tensors flat = contiguous(outputs);
  group.all_gather(bytes_of(input.contiguous()), bytes_of_all(flat));
  copy_back(flat, outputs);
}

void gather(Group& group, const at::Tensor& input, const Tensors& outputs, int root) {
  const Tensors flat = contiguous(outputs);
  group.gather(bytes_of(input.contiguous()), bytes_of_all(flat), root);
  copy_back(flat, outputs);
}

void scatter(Group& group, const Tensors& inputs, const at::Tensor& output, int root) {
  const Tensors sent = contiguous(inputs);
  const at::Tensor flat = output.contiguous();
  group.scatter(const_bytes_of_all(sent), bytes_of(flat), root);
  copy_back({flat}, {output});
}

void reduce_scatter(Group& group, const Tensors& inputs, const at::Tensor& output, collectives::ReduceOp op) {
  const bool equal =
      std::ranges::all_of(inputs, [&](const at::Tensor& t) { return t.numel() == inputs.front().numel(); });
  if (!equal) {
    for (int r = 0; r < group.world(); ++r) {
      const at::Tensor part = inputs[static_cast<std::size_t>(r)].clone(at::MemoryFormat::Contiguous);
      reduce(group, part, op, r);
      if (r == group.rank()) output.copy_(part.view(output.sizes()));
    }
    return;
  }
  Tensors flat;
  for (const at::Tensor& input : inputs) flat.push_back(input.reshape({-1}));
  const at::Tensor together = at::cat(flat);
  Reducible reducible(together, op);
  group.reduce_scatter(reducible.load(), op);
  reducible.store();
  output.copy_(together.narrow(0, group.rank() * output.numel(), output.numel()).view(output.sizes()));
}

void all_to_all(Group& group, const Tensors& inputs, const Tensors& outputs) {
  const Tensors sent = contiguous(inputs);
  const Tensors flat = contiguous(outputs);
  group.exchange(const_bytes_of_all(sent), bytes_of_all(flat), "all-to-all");
  copy_back(flat, outputs);
}

Tensors equal_parts(const at::Tensor& whole, int parts) {
  if (whole.numel() % parts != 0)
    throw ConfigError(
        fmt::format("backend tutti: {} elements do not fall into {} equal parts", whole.numel(), parts));
  const at::Tensor flat = whole.view({-1});
  const std::int64_t each = whole.numel() / parts;
  Tensors result;
  for (std::int64_t r = 0; r < parts; ++r) result.push_back(flat.narrow(0, r * each, each));
  return result;
}

}  // namespace tutti::torch_backend
