// Optimizers for large batches, which bring every layer forward by a part of its own length.
//
//   lars   rate = trust |p| / (|g| + decay |p|)        v = momentum v + lr rate (g + decay p)    p -= v
//   lamb   u = adam's direction + decay p              p -= lr |p| / |u| u
//
// After You, Gitman, Ginsburg 2017 and You et al. 2020. A layer without length, or whose gradient has none,
// goes at the rate of 1. Vectors (biases, batch norms) do so too, and do not decay: their length says
// nothing, as both papers' experiments have it.
#pragma once

#include <cstdint>
#include <span>

#include "optim/settings.h"

namespace tutti::optim {

// A parameter tensor among flat floats.
struct Layer {
  std::size_t first = 0;
  std::size_t count = 0;
  bool vector = false;
};

// As step() in optim/step.h, for kinds that need layers. What lies between layers is left alone.
void step_layers(const Settings& settings, double lr, std::int64_t t, std::span<const Layer> layers,
                 std::span<float> parameters, std::span<const float> gradients,
                 std::span<const std::span<float>> state);

}  // namespace tutti::optim
