#include "tutti/session.h"

#include <cstring>

#include "base/error.h"
#include "config/environment.h"
#include "library/member.h"

namespace tutti {
namespace {

// What a type travels as where it is added up; nothing where it would lose its meaning.
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

// The communicator moves words of four bytes.
std::size_t words_of(std::size_t bytes) {
  return (bytes + 3) / 4;
}

void broadcast_bytes(library::Member& member, std::span<std::byte> bytes, int root) {
  if (root < 0 || root >= member.size())
    throw ConfigError(fmt::format("root {} is none of 0 to {}", root, member.size() - 1));
  const auto room = member.staging(words_of(bytes.size()) * 4);
  if (member.rank() == root) std::memcpy(room.data(), bytes.data(), bytes.size());
  member.all().broadcast({room.data(), words_of(bytes.size()), DType::i32}, Rank{root}, "broadcast");
  std::memcpy(bytes.data(), room.data(), bytes.size());
}

std::span<std::byte> bytes_of(const torch::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.data_ptr()), contiguous.nbytes()};
}

}  // namespace

Session::Session(std::unique_ptr<library::Member> member) : member_(std::move(member)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session Session::join() {
  return Session(library::Member::join(config::job_descriptor()));
}

int Session::rank() const {
  return member_->rank();
}
int Session::size() const {
  return member_->size();
}
// All processes of a job are on one host.
int Session::local_rank() const {
  return rank();
}
int Session::local_size() const {
  return size();
}

void Session::barrier() {
  member_->tell_failure_of([&] { member_->all().barrier("barrier"); });
}

void Session::all_reduce(torch::Tensor& tensor, ReduceOp op) {
  require_on_cpu(tensor);
  if (tensor.is_complex()) throw ConfigError("complex tensors cannot be reduced; use torch::view_as_real");
  const torch::NoGradGuard no_grad;
  // Small integers and truth values are added up as larger ones.
  const auto type = sum_type(tensor.scalar_type()) ? tensor.scalar_type() : torch::kInt32;
  const auto source = tensor.to(type).contiguous();
  const auto room = member_->staging(source.nbytes());
  std::memcpy(room.data(), source.data_ptr(), source.nbytes());
  member_->tell_failure_of([&] {
    member_->all().all_reduce({room.data(), static_cast<std::size_t>(source.numel()), *sum_type(type)},
                              inner(op), "all_reduce");
  });
  tensor.copy_(torch::from_blob(room.data(), source.sizes(), source.options()));
}

torch::Tensor Session::all_gather(const torch::Tensor& tensor) {
  require_on_cpu(tensor);
  const torch::NoGradGuard no_grad;
  const auto mine = tensor.contiguous();
  const std::size_t bytes = mine.nbytes();
  const std::size_t words = words_of(bytes);
  const auto world = static_cast<std::size_t>(size());
  const auto room = member_->staging(words * 4 * world);
  std::memcpy(room.data() + words * 4 * static_cast<std::size_t>(rank()), mine.data_ptr(), bytes);
  member_->tell_failure_of([&] {
    member_->all().all_gather({room.data(), words * world, DType::i32}, "all_gather");
  });
  std::vector<std::int64_t> shape(mine.sizes().begin(), mine.sizes().end());
  shape.insert(shape.begin(), size());
  auto result = torch::empty(shape, mine.options());
  for (std::size_t r = 0; r < world; ++r) {
    std::memcpy(static_cast<std::byte*>(result.data_ptr()) + r * bytes, room.data() + r * words * 4, bytes);
  }
  return result;
}

std::vector<std::string> Session::all_gather(const std::string& text) {
  return member_->tell_failure_of([&] { return gather_text(member_->all(), text, "all_gather"); });
}

void Session::broadcast(torch::Tensor& tensor, int root) {
  require_on_cpu(tensor);
  const torch::NoGradGuard no_grad;
  const auto copy = tensor.detach().contiguous();  // the tensor's own memory where it is contiguous
  member_->tell_failure_of([&] { broadcast_bytes(*member_, bytes_of(copy), root); });
  if (copy.data_ptr() != tensor.data_ptr()) tensor.copy_(copy);
}

void Session::broadcast(std::string& text, int root) {
  member_->tell_failure_of([&] {
    auto length = static_cast<std::int64_t>(text.size());
    broadcast_bytes(*member_, std::as_writable_bytes(std::span(&length, 1)), root);
    text.resize(static_cast<std::size_t>(length));
    broadcast_bytes(*member_, std::as_writable_bytes(std::span(text)), root);
  });
}

Session Session::group(std::span<const int> ranks) {
  return Session(member_->tell_failure_of([&] { return member_->group(ranks); }));
}

}  // namespace tutti
