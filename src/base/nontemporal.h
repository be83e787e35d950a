// Writing to memory what nobody reads soon.
//
// A plain store first loads the line that it overwrites, and then keeps it in the cache at the cost of
// others. These do neither: for buffers that are larger than a cache they move two thirds of the bytes.
#pragma once

#include <cstddef>
#include <span>

namespace tutti {

// `to` and `from` have the same size and do not overlap. Visible to other threads as plain stores are.
void copy_nontemporal(std::span<std::byte> to, std::span<const std::byte> from);
void copy_nontemporal(std::span<float> to, std::span<const float> from);
void clear_nontemporal(std::span<float> to);

}  // namespace tutti
