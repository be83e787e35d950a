// A fixed run of numbers that begins on a cache line, uninitialised.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace tutti::data {

inline constexpr std::size_t kBufferAlignment = 64;

template <class T>
class AlignedBuffer {
  static_assert(std::is_trivial_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{kBufferAlignment}))),
        size_(size) {}

  std::span<T> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{kBufferAlignment}); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace tutti::data
