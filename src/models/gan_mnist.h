// Two networks against each other (Goodfellow et al. 2014), as study D wanted them:
//
//   noise, 100 -> 256 -> 784 pixels         the generator
//   784 pixels -> 256 -> is it real?        the discriminator
//
// A step has two phases: the discriminator learns to tell images of the data from the generator's, then the
// generator learns to be taken for real by it (the non-saturating loss).
#pragma once

#include "models/model.h"

namespace tutti::models {

// A model that makes images of its own.
class Generative {
 public:
  virtual ~Generative() = default;
  // count x rows x columns, from 0 to 1; always of the same noise.
  virtual torch::Tensor draw(std::int64_t count) = 0;
};

// Its figures: `loss` is the sum of `discriminator_loss` and `generator_loss`; `accuracy` is the
// discriminator's, half over images of the data and half over the generator's: 0.5 is a generator that it
// cannot tell.
ModelInfo gan_mnist();

}  // namespace tutti::models
