// The arithmetic of collectives on spans of elements.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace tutti::collectives {

// `average` is a sum here; who ends the reduction divides once. The last three are for integers alone.
enum class ReduceOp { sum, average, min, max, product, bit_and, bit_or, bit_xor };

std::string_view name_of(ReduceOp op);

// Common to all: spans are aligned to their element and do not overlap. bfloat16 and float16 are combined in
// float32 and rounded to nearest even. Integer sums and products wrap. The minimum or maximum of a NaN and
// anything is NaN.

// into[i] = into[i] op from[i], for count elements.
void combine(DType type, ReduceOp op, void* into, const void* from, std::size_t count);

// Every buffer's element i becomes ((b0[i] op b1[i]) op b2[i]) ... / divisor: the same bits in all of them.
// What ranks on one host need: memory is read once and written once, for the partial result stays in the
// nearest cache (with two buffers, in a register). bfloat16 and float16 are rounded once, at the end. A
// divisor other than 1 is for sums only.
void combine_across(DType type, ReduceOp op, std::span<void* const> buffers, std::size_t count,
                    int divisor = 1);

// data[i] = data[i] / divisor, divisor > 0: floating types multiply by the reciprocal if the divisor is a
// power of two (the same bits, sooner) and divide otherwise; integers truncate towards zero.
void divide(DType type, void* data, std::size_t count, int divisor);

}  // namespace tutti::collectives
