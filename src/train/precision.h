// The numbers that a forward pass computes with. Parameters, gradients and what is exchanged stay float32.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <string_view>

namespace tutti::train {

// While it lives, products and convolutions of this thread run in bfloat16 if `bf16`, and what needs more
// digits in float32 (libtorch's autocast). Scopes do not nest.
class Autocast {
 public:
  explicit Autocast(bool bf16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool on_;
};

// Where libtorch has no kernel in bfloat16 for something that the model does, its error says so. Throws it as
// a ConfigError that names the model; does nothing about other errors.
void refuse_without_kernel(const c10::Error& error, std::string_view model);

// One line for people: what bfloat16 is good for on this machine.
std::string describe_bf16();

}  // namespace tutti::train
