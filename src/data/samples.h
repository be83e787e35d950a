// A part of a data set, as a loader and an evaluation see it: samples by number, decoded when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/field.h"

namespace tutti::data {

// Read-only, so any number of threads may share one.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::size_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;

  // Decodes the samples at `indices`, one after another, into a run of bytes for each field; each must have
  // room, and begins where its type may stand.
  virtual void decode(std::span<const std::uint32_t> indices,
                      std::span<const std::span<std::byte>> into) const = 0;
};

// A field's bytes as numbers.
template <class T>
std::span<T> as_numbers(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <class T>
std::span<const T> as_numbers(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace tutti::data
