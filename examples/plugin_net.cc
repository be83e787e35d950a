// A network as a plugin: compiled to a shared library, it trains under `tutti train` like the built-in ones.
//
//   c++ -O2 -shared -fPIC plugin_net.cc -o libplugin_net.so $(pkg-config --cflags tutti)
//   tutti train --model plugin:./libplugin_net.so --data csv:table.csv --strategy ring --workers 2
#include <tutti/network.h>

// Three numbers, two classes.
struct Net : tutti::Network {
  torch::nn::Linear first{register_module("first", torch::nn::Linear(3, 32))};
  torch::nn::LayerNorm norm{register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{32}))};
  torch::nn::Linear last{register_module("last", torch::nn::Linear(32, 2))};

  torch::Tensor forward(const std::vector<torch::Tensor>& inputs) override {
    return last(torch::gelu(norm(first(inputs[0]))));
  }
};

TUTTI_NETWORK(Net)
