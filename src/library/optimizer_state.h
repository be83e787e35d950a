// What an optimizer that is called as it is remembers from step to step, as it writes it itself
// (torch::optim::Optimizer::save), in a tensor that a checkpoint can hold.
#pragma once

#include <torch/optim/optimizer.h>

#include <optional>
#include <span>
#include <string>

namespace tutti::library {

// "torch::optim::Adam"
std::string class_of(const torch::optim::Optimizer& optimizer);

// Throws ConfigError if it has state and its class does not write it. An optimizer that writes nothing and
// shows no state is taken to have none.
std::string serialised(const torch::optim::Optimizer& optimizer);

// The first tensor with a NaN or an infinite number among what serialised() gave, in words.
std::optional<std::string> first_nonfinite(const std::string& serialised);

// Gives the optimizer back what it has written; its settings, the learning rate among them, stay as they are.
// Throws DataError that begins with `where`.
void deserialise(torch::optim::Optimizer& optimizer, const std::string& serialised, const std::string& where);

// Bytes as a tensor of int32, and back: files have no type of one byte. unpack() throws DataError that
// begins with `where`.
torch::Tensor pack(const std::string& bytes);
std::string unpack(std::span<const std::byte> packed, const std::string& where);

}  // namespace tutti::library
