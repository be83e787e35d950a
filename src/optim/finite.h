// Looking for NaN, infinities, and numbers so large that adding up a few of them would
// give one. Only exponents are looked at, so a look costs little more than reading.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace tutti::optim {

// The exponent of a float as it is stored: 255 in NaN and infinities.
inline constexpr unsigned kNotFinite = 255;

// The exponent that every one of `count` numbers must stay below so that their sum is finite, in whatever
// order they are added. One number must only be finite itself.
unsigned exponent_limit(int count);

// Whether every exponent is below the limit: by default, whether every number is finite.
bool all_finite(std::span<const float> values, unsigned limit = kNotFinite);

// Where the first number stands whose exponent is not. For the rare case: it is much slower.
std::optional<std::size_t> first_nonfinite(std::span<const float> values, unsigned limit = kNotFinite);

}  // namespace tutti::optim
