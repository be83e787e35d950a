// Numbers out of bytes of any element type, aligned or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tutti::checkpoint {

// How two tensors of one type and length differ, by the bits of their elements.
struct ElementDifferences {
  std::int64_t differing = 0;   // elements whose bits differ; all of the below are among them
  std::int64_t first = -1;      // index of the first of them
  std::int64_t zero_signs = 0;  // +0 against -0: other bits, 0 ULPs apart
  std::int64_t nan = 0;         // a NaN on either side, so without a distance
  // Over the others. ULPs count the representable numbers from one to the other (so +0 and -0 are one
  // number); for integers they are the difference.
  std::uint64_t max_ulps = 0;
  double max_abs = 0;
};

// a and b have the same length, a multiple of the element's size.
ElementDifferences compare(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b);

// Of the elements that are not NaN; all zero if there is none.
struct Statistics {
  double min = 0;
  double max = 0;
  double mean = 0;
  double l2 = 0;  // root of the sum of squares
  std::int64_t nan = 0;
};

Statistics statistics(DType dtype, std::span<const std::byte> bytes);

}  // namespace tutti::checkpoint
