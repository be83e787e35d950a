// How the gradients of a bucket travel, where not as they are: compressed, or any other way.
#pragma once

#include <torch/types.h>

#include <memory>

#include "tutti/export.h"
#include "tutti/workers.h"

namespace tutti {

// Takes the place of an all-reduce of each bucket. One model's training uses it, and keeps it alive.
class TUTTI_API Hook {
 public:
  virtual ~Hook() = default;

  // Replaces the gradients, float32 in one dimension, by their mean over all processes, or by what shall
  // stand for it: the same numbers on every process. Called on a thread of its own while backward goes on,
  // bucket after bucket in the same order everywhere; a bucket has the same number and length in every step.
  // What it throws, step() throws.
  virtual void average(Workers& all, int bucket, torch::Tensor gradients) = 0;
};

// Half the bytes: gradients are rounded to 16 bits, and added up so. bfloat16 keeps the range of float32,
// float16 has three more bits of precision.
TUTTI_API std::shared_ptr<Hook> bf16_hook();
TUTTI_API std::shared_ptr<Hook> fp16_hook();

// Top-k sparsification: of every bucket only this share of its gradients is sent, those of the largest
// magnitude; the rest is added to the next step's (error feedback). Each process sends eight bytes for each
// gradient that it sends, to all others.
TUTTI_API std::shared_ptr<Hook> top_k_hook(double share);

// PowerSGD (Vogels et al. 2019): a bucket as a square matrix, of which a product of two thin ones travels,
// `rank` columns each; what it leaves out is added to the next step's.
TUTTI_API std::shared_ptr<Hook> power_sgd_hook(int rank);

}  // namespace tutti
