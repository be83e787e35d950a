#include "library/tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tutti::library {
namespace {

// What a type travels as where it is added up; nothing where our sums do not know it.
std::optional<DType> sum_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return DType::f32;
    case torch::kFloat64:
      return DType::f64;
    case torch::kInt64:
      return DType::i64;
    case torch::kInt32:
      return DType::i32;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kFloat16:
      return DType::f16;
    default:
      return std::nullopt;
  }
}

// Small integers and truth values are added up as larger ones.
torch::ScalarType larger_type(torch::ScalarType type) {
  for (const auto small : {torch::kBool, torch::kUInt8, torch::kInt8, torch::kInt16}) {
    if (type == small) return torch::kInt32;
  }
  throw ConfigError(fmt::format("tensors of {} cannot be reduced", c10::toString(type)));
}

collectives::ReduceOp inner(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return collectives::ReduceOp::sum;
    case ReduceOp::average:
      return collectives::ReduceOp::average;
    case ReduceOp::min:
      return collectives::ReduceOp::min;
    case ReduceOp::max:
      return collectives::ReduceOp::max;
  }
  return collectives::ReduceOp::sum;
}

void require_on_cpu(const torch::Tensor& tensor) {
  if (!tensor.defined()) throw ConfigError("an undefined tensor cannot be exchanged");
  if (!tensor.device().is_cpu() || tensor.layout() != torch::kStrided) {
    throw ConfigError(fmt::format("a tensor on {} cannot be exchanged yet; move it to the CPU, dense",
                                  tensor.device().str()));
  }
}

// What is written must be told apart, element by element.
void require_writable(const torch::Tensor& tensor) {
  require_on_cpu(tensor);
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1 && tensor.stride(d) == 0) {
      throw ConfigError("a tensor whose elements share memory (expand()) cannot take a result; clone() it");
    }
  }
}

// The engine moves words of four bytes.
std::size_t words_of(std::size_t bytes) {
  return (bytes + 3) / 4;
}

}  // namespace

std::span<std::byte> Tensors::room_for(std::size_t bytes) {
  if (room_.size() < bytes) {
    const std::size_t more = std::max(bytes, 2 * std::exchange(room_, {}).size());
    all_.release(before_);
    room_ = all_.allocate(more);
  }
  return room_.first(bytes);
}

void Tensors::all_reduce(torch::Tensor& tensor, ReduceOp op, std::string_view label) {
  require_writable(tensor);
  const torch::NoGradGuard no_grad;
  const auto type = sum_type(tensor.scalar_type()) ? tensor.scalar_type() : larger_type(tensor.scalar_type());
  const auto source = tensor.to(type).contiguous();
  const auto room = room_for(source.nbytes());
  std::memcpy(room.data(), source.data_ptr(), source.nbytes());
  all_.all_reduce({room.data(), static_cast<std::size_t>(source.numel()), *sum_type(type)}, inner(op), label);
  tensor.copy_(torch::from_blob(room.data(), source.sizes(), source.options()));
}

torch::Tensor Tensors::all_gather(const torch::Tensor& tensor, std::string_view label) {
  require_on_cpu(tensor);
  const torch::NoGradGuard no_grad;
  const auto mine = tensor.contiguous();
  const std::size_t bytes = mine.nbytes();
  const std::size_t words = words_of(bytes);
  const auto world = static_cast<std::size_t>(all_.world());
  const auto room = room_for(words * 4 * world);
  std::memcpy(room.data() + words * 4 * static_cast<std::size_t>(to_int(all_.rank())), mine.data_ptr(),
              bytes);
  all_.all_gather({room.data(), words * world, DType::i32}, label);
  std::vector<std::int64_t> shape(mine.sizes().begin(), mine.sizes().end());
  shape.insert(shape.begin(), static_cast<std::int64_t>(world));
  auto result = torch::empty(shape, mine.options());
  for (std::size_t r = 0; r < world; ++r) {
    std::memcpy(static_cast<std::byte*>(result.data_ptr()) + r * bytes, room.data() + r * words * 4, bytes);
  }
  return result;
}

void Tensors::broadcast(std::span<std::byte> bytes, int root, std::string_view label) {
  if (root < 0 || root >= all_.world())
    throw ConfigError(fmt::format("root {} is none of 0 to {}", root, all_.world() - 1));
  const auto room = room_for(words_of(bytes.size()) * 4);
  if (to_int(all_.rank()) == root) std::memcpy(room.data(), bytes.data(), bytes.size());
  all_.broadcast({room.data(), words_of(bytes.size()), DType::i32}, Rank{root}, label);
  std::memcpy(bytes.data(), room.data(), bytes.size());
}

void Tensors::broadcast(torch::Tensor& tensor, int root, std::string_view label) {
  require_writable(tensor);
  const torch::NoGradGuard no_grad;
  const auto copy = tensor.detach().contiguous();  // the tensor's own memory where it is contiguous
  broadcast({static_cast<std::byte*>(copy.data_ptr()), copy.nbytes()}, root, label);
  if (copy.data_ptr() != tensor.data_ptr()) tensor.copy_(copy);
}

}  // namespace tutti::library
