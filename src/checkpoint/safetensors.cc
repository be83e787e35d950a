#include "checkpoint/safetensors.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tutti::checkpoint {

using nlohmann::json;

namespace {

void check_shape(const TensorView& tensor) {
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const auto dimension : tensor.shape) bytes *= static_cast<std::uint64_t>(dimension);
  TUTTI_CHECK(bytes == tensor.bytes.size(), "tensor {}, {}{}, has {} bytes", tensor.name,
              name_of(tensor.dtype), shape_text(tensor.shape), tensor.bytes.size());
}

// The length in front, and spaces behind so that the data begins at a multiple of 8.
std::string framed(std::string text) {
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
  }
  return "?";
}

std::uint64_t SafetensorsLayout::bytes() const {
  std::uint64_t total = header.size();
  for (const auto& tensor : tensors) total += tensor.bytes.size();
  return total;
}

std::vector<std::span<const std::byte>> SafetensorsLayout::pieces() const {
  std::vector<std::span<const std::byte>> out{std::as_bytes(std::span(header))};
  for (const auto& tensor : tensors) out.push_back(tensor.bytes);
  return out;
}

SafetensorsLayout lay_out(std::span<const TensorView> tensors, const Metadata& metadata) {
  SafetensorsLayout layout{.header = {}, .tensors = in_name_order(tensors)};
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& tensor : layout.tensors) {
    check_shape(tensor);
    const std::uint64_t end = offset + tensor.bytes.size();
    if (tensor.name.empty() || tensor.name == "__metadata__" || header.contains(tensor.name)) {
      throw RunError(
          fmt::format("a tensor cannot be stored as {}: empty, taken or given twice", quoted(tensor.name)));
    }
    header[tensor.name] = {
        {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    layout.header = framed(header.dump());
  } catch (const json::exception&) {
    throw RunError("a tensor's name or a file's metadata is not UTF-8");
  }
  return layout;
}

std::vector<std::byte> to_safetensors(std::span<const TensorView> tensors, const Metadata& metadata) {
  const auto layout = lay_out(tensors, metadata);
  std::vector<std::byte> out;
  out.reserve(layout.bytes());
  for (const auto piece : layout.pieces()) out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  const auto layout = lay_out(tensors, metadata);
  write_file_atomically(path, layout.pieces());
}

}  // namespace tutti::checkpoint
