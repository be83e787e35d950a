#include "data/cifar.h"

#include "base/error.h"

namespace tutti::data {
namespace {

constexpr std::size_t kRecord = 1 + 3 * 32 * 32;

}  // namespace

CifarImages::CifarImages(std::span<const std::string> files, std::size_t classes) {
  for (const std::string& file : files) {
    const auto bytes = files_.emplace_back(map_file(file)).bytes();
    if (bytes.empty() || bytes.size() % kRecord != 0) {
      throw DataError(fmt::format("{}: {} bytes, expected a multiple of {}", file, bytes.size(), kRecord));
    }
    for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
      const auto label = std::to_integer<std::size_t>(bytes[at]);
      if (label >= classes) {
        throw DataError(
            fmt::format("{}: offset {}: label {}, expected 0 to {}", file, at, label, classes - 1));
      }
    }
    size_ += bytes.size() / kRecord;
  }
}

std::span<const std::byte> CifarImages::record(std::size_t i) const {
  TUTTI_CHECK(i < size_, "image {} of {}", i, size_);
  auto file = files_.begin();
  for (; i >= file->bytes().size() / kRecord; ++file) i -= file->bytes().size() / kRecord;
  return file->bytes().subspan(i * kRecord, kRecord);
}

std::span<const std::uint8_t> CifarImages::pixels(std::size_t i) const {
  return as_numbers<std::uint8_t>(record(i).subspan(1));
}

std::uint8_t CifarImages::label(std::size_t i) const {
  return std::to_integer<std::uint8_t>(record(i)[0]);
}

std::unique_ptr<const ImageSet> CifarFormat::open_set(std::span<const std::string> files) const {
  return std::make_unique<const CifarImages>(files, kind().classes);
}

}  // namespace tutti::data
