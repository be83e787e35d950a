// A network of one's own in a shared library, for `tutti train --model plugin:./libnet.so`.
//
//   struct Net : tutti::Network {
//     torch::nn::Linear layer{register_module("layer", torch::nn::Linear(4, 3))};
//     torch::Tensor forward(const std::vector<torch::Tensor>& inputs) override { return layer(inputs[0]); }
//   };
//   TUTTI_NETWORK(Net)
//
// It is compiled with tutti's headers and libtorch's, the libtorch that tutti runs on, and linked with
// neither: the program that loads it has them.
#pragma once

#include <torch/nn.h>
#include <torch/version.h>

#include <memory>
#include <vector>

#include "tutti/export.h"

namespace tutti {

class Network : public torch::nn::Module {
 public:
  // The scores of a batch. `inputs` is what the data has but its label, samples along the first dimension;
  // --loss says what is made of the scores.
  virtual torch::Tensor forward(const std::vector<torch::Tensor>& inputs) = 0;
};

// What a plugin tells of itself. The first two stay where they are in every version.
struct PluginDescription {
  int interface_version;
  const char* torch_version;
  std::shared_ptr<Network> (*make)();
};

// Changes whenever a plugin that was compiled before would be misunderstood.
inline constexpr int kPluginInterface = 1;

}  // namespace tutti

// Once in a shared library, outside any namespace: the type of its network, which has a default constructor.
#define TUTTI_NETWORK(Type)                                                            \
  extern "C" TUTTI_API const tutti::PluginDescription* tutti_plugin() {                \
    static const tutti::PluginDescription description{                                 \
        tutti::kPluginInterface, TORCH_VERSION,                                        \
        []() -> std::shared_ptr<tutti::Network> { return std::make_shared<Type>(); }}; \
    return &description;                                                               \
  }
