#include "data/records.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tutti::data {
namespace {

using WordSpan = std::span<const std::uint32_t>;

WordSpan words_of(const Mapping& mapping) {
  return as_numbers<std::uint32_t>(std::span<const std::byte>(mapping.bytes()));
}

// The numbers of one field of sample `i` in a batch.
void widen(WordSpan words, const Field& field, std::size_t i, std::span<std::byte> into) {
  const auto out = into.subspan(i * field.bytes(), field.bytes());
  if (field.type == DType::f32) {
    std::memcpy(out.data(), words.data(), out.size());
  } else {
    std::ranges::copy(words, as_numbers<std::int64_t>(out).begin());
  }
}

}  // namespace

PlainFile Words::share() const {
  const auto bytes = std::as_bytes(std::span(words_));
  UniqueFd memory = make_memory_file("tutti-words", bytes.size());
  write_all(memory.get(), bytes, "cannot write a memory file");
  return share_with_children(std::move(memory));
}

RecordSamples::RecordSamples(const std::string& file, std::vector<Field> fields)
    : mapping_(map_file(file)), fields_(std::move(fields)) {
  for (const Field& field : fields_) record_ += field.count();
  const std::size_t words = words_of(mapping_).size();
  TUTTI_CHECK(words % record_ == 0, "{} words in records of {}", words, record_);
  size_ = words / record_;
}

void RecordSamples::decode(std::span<const std::uint32_t> indices,
                           std::span<const std::span<std::byte>> into) const {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TUTTI_CHECK(indices[i] < size_, "sample {} of {}", indices[i], size_);
    WordSpan record = words_of(mapping_).subspan(indices[i] * record_, record_);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      widen(record.first(fields_[f].count()), fields_[f], i, into[f]);
      record = record.subspan(fields_[f].count());
    }
  }
}

WindowSamples::WindowSamples(const std::string& file, std::vector<Field> fields)
    : mapping_(map_file(file)), fields_(std::move(fields)) {
  const std::size_t words = words_of(mapping_).size();
  const std::size_t window = fields_.at(0).count();
  TUTTI_CHECK(fields_.size() == 1 && window > 1 && words >= window, "{} words, window {}", words, window);
  size_ = (words - 1) / (window - 1);
}

void WindowSamples::decode(std::span<const std::uint32_t> indices,
                           std::span<const std::span<std::byte>> into) const {
  const std::size_t window = fields_[0].count();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TUTTI_CHECK(indices[i] < size_, "window {} of {}", indices[i], size_);
    widen(words_of(mapping_).subspan(indices[i] * (window - 1), window), fields_[0], i, into[0]);
  }
}

}  // namespace tutti::data
