// The arithmetic of collectives on spans of elements.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/dtype.h"

namespace tutti::collectives {

// `average` is a sum here; who ends the reduction calls `divide` once.
enum class ReduceOp { sum, average, min, max };

std::string_view name_of(ReduceOp op);

// into[i] = into[i] op from[i], for count elements. The two spans do not overlap. bfloat16 and float16 are
// combined in float32 and rounded to nearest even.
void combine(DType type, ReduceOp op, void* into, const void* from, std::size_t count);

// out_a[i] = out_b[i] = a[i] op b[i], in one pass over memory; out_a may be a, out_b may be b.
// What two ranks on one host need: the sum goes to both buffers while it is in a register.
void combine_into_both(DType type, ReduceOp op, void* a, void* b, std::size_t count);

// data[i] = data[i] / divisor: floating types multiply by the reciprocal if the divisor is a power of two and
// divide otherwise; integers truncate towards zero.
void divide(DType type, void* data, std::size_t count, int divisor);

}  // namespace tutti::collectives
