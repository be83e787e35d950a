// Lengths of vectors, and making long ones shorter.
#pragma once

#include <span>

namespace tutti::optim {

// In double and in an order that depends on the length alone, so that every machine gets the same bits.
double sum_of_squares(std::span<const float> values);

void scale(std::span<float> values, double factor);

}  // namespace tutti::optim
