// Reading checks everything a header claims before any of it is used: a file comes from anywhere.
#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"

namespace tutti::checkpoint {

using nlohmann::json;

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as in the format's own implementation

// A tensor as its header entry tells it, offsets within the data.
struct Entry {
  TensorView tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::optional<DType> parse_dtype(const json& name) {
  if (!name.is_string()) return std::nullopt;
  for (const DType t : {DType::f32, DType::f64, DType::i32, DType::i64, DType::bf16, DType::f16}) {
    if (name.get_ref<const std::string&>() == safetensors_name(t)) return t;
  }
  return std::nullopt;
}

std::vector<std::int64_t> parse_shape(const json& shape, const std::string& where) {
  if (!shape.is_array()) reject(where, "shape is no list");
  std::vector<std::int64_t> out;
  for (const auto& dimension : shape) {
    if (!dimension.is_number_unsigned() ||
        dimension.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      reject(where, "a dimension is no whole number from 0 to 2^63 - 1");
    }
    out.push_back(dimension.get<std::int64_t>());
  }
  return out;
}

// Bytes that a tensor of this type and shape takes; none if that does not fit 64 bits.
std::optional<std::uint64_t> bytes_of(DType dtype, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = size_of(dtype);
  for (const auto dimension : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes)) return std::nullopt;
  }
  return bytes;
}

Entry parse_entry(const std::string& name, const json& info, std::uint64_t data_bytes,
                  const std::string& file) {
  const std::string where = fmt::format("{}: header: tensor {}", file, quoted(name));
  if (name.empty()) reject(where, "has no name");
  if (!info.is_object() || info.size() != 3 || !info.contains("dtype") || !info.contains("shape") ||
      !info.contains("data_offsets")) {
    reject(where, "does not consist of dtype, shape and data_offsets");
  }
  const auto dtype = parse_dtype(info["dtype"]);
  if (!dtype) reject(where, "dtype is none of F32, F64, I32, I64, BF16, F16");
  Entry entry{
      .tensor = {.name = name, .dtype = *dtype, .shape = parse_shape(info["shape"], where), .bytes = {}}};

  const json& offsets = info["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    reject(where, "data_offsets are no two whole numbers");
  }
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes) {
    reject(where, fmt::format("data_offsets [{}, {}] are not within the {} bytes of data", entry.begin,
                              entry.end, data_bytes));
  }
  const auto bytes = bytes_of(*dtype, entry.tensor.shape);
  if (!bytes || *bytes != entry.end - entry.begin) {
    reject(where, fmt::format("{}{} does not take {} bytes", safetensors_name(*dtype),
                              shape_text(entry.tensor.shape), entry.end - entry.begin));
  }
  return entry;
}

Metadata parse_metadata(const json& object, const std::string& file) {
  const std::string where = file + ": header: __metadata__";
  if (!object.is_object()) reject(where, "is no object");
  Metadata out;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) reject(where, fmt::format("{} is no text", quoted(key)));
    out[key] = value.get<std::string>();
  }
  return out;
}

void check_cover(std::vector<Entry>& entries, std::uint64_t data_start, std::uint64_t data_bytes,
                 const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.begin != covered) {
      reject(file,
             fmt::format("byte {}: tensor {} leaves a hole or overlaps another: it begins at {} of the data, "
                         "not {}",
                         data_start + covered, quoted(entry.tensor.name), entry.begin, covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    reject(file, fmt::format("byte {}: {} bytes that belong to no tensor", data_start + covered,
                             data_bytes - covered));
  }
}

std::string_view header_of(std::span<const std::byte> file, const std::string& where) {
  std::uint64_t length = 0;
  if (file.size() < kLengthBytes) {
    reject(where, fmt::format("byte {}: ends before the length of its header", file.size()));
  }
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kLongestHeader) {
    reject(where, fmt::format("byte 0: header of {} bytes, more than {}", length, kLongestHeader));
  }
  if (length > file.size() - kLengthBytes) {
    reject(where, fmt::format("byte {}: ends within its header of {} bytes", file.size(), length));
  }
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!header.starts_with('{')) reject(where, "byte 8: header does not begin with {");
  return header;
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& where) {
  const auto text = header_of(file, where);
  const auto data = file.subspan(kLengthBytes + text.size());
  const json header = parse_strict(text, where + ": header", kLengthBytes);
  SafetensorsContent content;
  std::vector<Entry> entries;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      content.metadata = parse_metadata(info, where);
    } else {
      entries.push_back(parse_entry(name, info, data.size(), where));
    }
  }
  check_cover(entries, kLengthBytes + text.size(), data.size(), where);
  for (auto& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    content.tensors.push_back(std::move(entry.tensor));
  }
  content.tensors = in_name_order(content.tensors);
  return content;
}

SafetensorsFile::SafetensorsFile(Mapping mapping, const std::filesystem::path& path)
    : path_(path),
      mapping_(std::move(mapping)),
      content_(parse_safetensors(mapping_.bytes(), path.string())) {}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(content_.tensors.begin(), content_.tensors.end(), name,
                       [](const TensorView& tensor, std::string_view n) { return tensor.name < n; });
  return at != content_.tensors.end() && at->name == name ? &*at : nullptr;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr)
    throw DataError(fmt::format("{}: no tensor {}", path_.string(), quoted(std::string(name))));
  return *tensor;
}

}  // namespace tutti::checkpoint
