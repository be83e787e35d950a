// For tests: samples from small files, and what they decode to.
#pragma once

#include <cstring>
#include <numeric>

#include "data/format.h"

namespace tutti::data::fixture {

// The numbers of one field of the samples at `indices`; of all samples if there are none.
template <class T>
std::vector<T> decoded(const Samples& samples, std::size_t field, std::vector<std::uint32_t> indices = {}) {
  if (indices.empty()) {
    indices.resize(samples.size());
    std::iota(indices.begin(), indices.end(), 0U);
  }
  std::vector<std::vector<std::int64_t>> buffers;  // of the type that needs the strictest alignment
  std::vector<std::span<std::byte>> into;
  for (const Field& f : samples.fields()) {
    buffers.emplace_back((indices.size() * f.bytes() + 7) / 8);
    into.push_back(std::as_writable_bytes(std::span(buffers.back())).first(indices.size() * f.bytes()));
  }
  samples.decode(indices, into);
  std::vector<T> numbers(into[field].size() / sizeof(T));
  std::memcpy(numbers.data(), into[field].data(), into[field].size());
  return numbers;
}

// Both parts of a set, prepared and opened as the processes of a run do it.
class BothParts {
 public:
  BothParts(const Format& format, const PartFiles& sources, const std::vector<Field>& wanted,
            const std::filesystem::path& cache = {})
      : plain_(format.prepare(sources, wanted, cache)) {
    for (const Part part : kParts) samples_.push_back(format.open(plain_.files[part], wanted));
  }
  const Samples& operator[](Part part) const { return *samples_[static_cast<std::size_t>(part)]; }

 private:
  PlainFiles plain_;
  std::vector<std::unique_ptr<Samples>> samples_;
};

inline PartFiles sources_of(const std::vector<std::string>& training, const std::vector<std::string>& test) {
  PartFiles sources;
  sources[Part::training] = training;
  sources[Part::test] = test;
  return sources;
}

}  // namespace tutti::data::fixture
