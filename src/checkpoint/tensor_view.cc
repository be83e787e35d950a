#include "checkpoint/tensor_view.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

namespace tutti::checkpoint {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are not swapped");

std::vector<TensorView> in_name_order(std::span<const TensorView> tensors) {
  std::vector<TensorView> sorted(tensors.begin(), tensors.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return sorted;
}

Digest parameters_digest(std::span<const TensorView> tensors) {
  Sha256 sha;
  const auto add_u64 = [&sha](std::uint64_t number) { sha.update(std::as_bytes(std::span(&number, 1))); };
  for (const auto& tensor : in_name_order(tensors)) {
    add_u64(tensor.name.size());
    sha.update(tensor.name).update(name_of(tensor.dtype));
    add_u64(tensor.shape.size());
    for (const auto dimension : tensor.shape) add_u64(static_cast<std::uint64_t>(dimension));
    sha.update(tensor.bytes);
  }
  return sha.digest();
}

std::string quoted(const std::string& name) {
  constexpr std::size_t kLongest = 120;
  const std::string text = nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest - 3) + "...";
}

std::string printable(const std::string& name) {
  const std::string safe = quoted(name);
  return safe == '"' + name + '"' ? name : safe;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const auto dimension : shape) text += (text.empty() ? "" : ", ") + std::to_string(dimension);
  return "[" + text + "]";
}

}  // namespace tutti::checkpoint
