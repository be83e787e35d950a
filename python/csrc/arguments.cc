#include "arguments.h"

#include "base/error.h"
#include "reducible.h"

namespace tutti::torch_backend {

const at::Tensor& only(const Tensors& tensors) {
  if (tensors.size() != 1)
    throw ConfigError(fmt::format("backend tutti: {} tensors where one is expected", tensors.size()));
  return tensors.front();
}

const at::Tensor& only_dense(const Tensors& tensors) {
  require_dense_on_cpu(only(tensors));
  return tensors.front();
}

const Tensors& one_a_rank(const std::vector<Tensors>& lists, int world) {
  if (lists.size() != 1 || static_cast<int>(lists.front().size()) != world)
    throw ConfigError(fmt::format("backend tutti: a list of {} tensors is expected, one a rank", world));
  for (const at::Tensor& tensor : lists.front()) require_dense_on_cpu(tensor);
  return lists.front();
}

void require_same_bytes(const at::Tensor& one, const Tensors& others) {
  for (const at::Tensor& other : others) {
    if (other.scalar_type() != one.scalar_type() || other.numel() != one.numel())
      throw ConfigError(fmt::format("backend tutti: tensors differ: {} of {} and {} of {}", one.numel(),
                                    c10::toString(one.scalar_type()), other.numel(),
                                    c10::toString(other.scalar_type())));
  }
}

void require_root(std::int64_t root, int world) {
  if (root < 0 || root >= world)
    throw ConfigError(fmt::format("backend tutti: root {} is none of 0 to {}", root, world - 1));
}

Tensors split_rows(const at::Tensor& whole, std::vector<std::int64_t> splits, int world) {
  if (whole.dim() == 0) throw ConfigError("backend tutti: a tensor without dimensions cannot be split");
  if (splits.empty()) {
    if (whole.size(0) % world != 0)
      throw ConfigError(
          fmt::format("backend tutti: {} rows do not fall into {} equal parts", whole.size(0), world));
    splits.assign(static_cast<std::size_t>(world), whole.size(0) / world);
  }
  std::int64_t rows = 0;
  for (const std::int64_t split : splits) rows += split;
  if (static_cast<int>(splits.size()) != world || rows != whole.size(0))
    throw ConfigError(
        fmt::format("backend tutti: {} split sizes of {} rows in all for {} ranks and a tensor of {} rows",
                    splits.size(), rows, world, whole.size(0)));
  return whole.split_with_sizes(splits);
}

}  // namespace tutti::torch_backend
