// The safetensors format, which PyTorch programs and model hubs read and write:
//
//   | N: u64, little-endian | header: N bytes of JSON | data |
//
//   {"__metadata__": {"key": "text"},
//    "fc.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// Offsets count from the start of the data; tensors cover it without holes or overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/tensor_view.h"

namespace tutti::checkpoint {

using Metadata = std::map<std::string, std::string>;

// "F32" for DType::f32: the type's name in a header.
std::string_view safetensors_name(DType dtype);

// A file before it is written: its header, padded to 8 bytes, then the tensors' bytes in name order. Views
// the tensors' bytes.
struct SafetensorsLayout {
  std::string header;               // with the 8 bytes of its length
  std::vector<TensorView> tensors;  // in name order

  std::uint64_t bytes() const;
  std::vector<std::span<const std::byte>> pieces() const;  // the file, cut; views this layout
};

// Throws RunError for a name that is empty, not UTF-8, given twice or "__metadata__"; a shape that does not
// fit its bytes is a bug.
SafetensorsLayout lay_out(std::span<const TensorView> tensors, const Metadata& metadata = {});

std::vector<std::byte> to_safetensors(std::span<const TensorView> tensors, const Metadata& metadata = {});

// Writes without a second copy of the data. Old file or new, never half; throws RunError that names the path.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata = {});

// What a header says, all of it checked against the file's length.
struct SafetensorsContent {
  std::vector<TensorView> tensors;  // in name order; view the file's bytes
  Metadata metadata;
};

// Reads a whole file's bytes, trusting none. `where` begins the one line of DataError, which names the byte
// or the tensor, and why.
SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& where);

// A file, mapped; its tensors view the mapping and live as long as this. Immutable once made, so threads may
// share it.
class SafetensorsFile {
 public:
  // Throws DataError that names the path.
  explicit SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(map_file(path), path) {}
  SafetensorsFile(Mapping mapping, const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::span<const TensorView> tensors() const { return content_.tensors; }
  const Metadata& metadata() const { return content_.metadata; }

  // Null if there is none of that name.
  const TensorView* find(std::string_view name) const;
  // Throws DataError that names the file and the tensor.
  const TensorView& at(std::string_view name) const;

 private:
  std::filesystem::path path_;
  Mapping mapping_;
  SafetensorsContent content_;
};

}  // namespace tutti::checkpoint
