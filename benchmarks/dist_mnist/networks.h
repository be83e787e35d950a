// What both programs train: the same libtorch layers, the same samples, timed alike.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

// The network of PyTorch's distributed C++ example.
inline torch::nn::Sequential mnist() {
  using namespace torch::nn;
  return Sequential(Conv2d(1, 10, 5), MaxPool2d(2), ReLU(), Conv2d(10, 20, 5), Dropout2d(), MaxPool2d(2),
                    ReLU(), Flatten(), Linear(320, 50), ReLU(), Dropout(), Linear(50, 10));
}

// VGG-16 on images of 32 x 32: as in ../networks.py with its dense layers of 4096, which are nine tenths of
// its 134 million parameters; or, as many use it for small images, with two of 512 behind the convolutions.
inline torch::nn::Sequential vgg16(bool small) {
  using namespace torch::nn;
  Sequential net;
  int channels = 3;
  for (const int width : {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0}) {
    if (width == 0) {
      net->push_back(MaxPool2d(2));
    } else {
      net->push_back(Conv2d(Conv2dOptions(channels, width, 3).padding(1)));
      net->push_back(ReLU());
      channels = width;
    }
  }
  if (!small) net->push_back(AdaptiveAvgPool2d(7));
  net->push_back(Flatten());
  const int width = small ? 512 : 4096;
  for (const int inputs : {small ? 512 : 512 * 7 * 7, width}) {
    net->push_back(Linear(inputs, width));
    net->push_back(ReLU());
    if (!small) net->push_back(Dropout());
  }
  net->push_back(Linear(width, 10));
  return net;
}

struct Batch {
  torch::Tensor images;
  torch::Tensor labels;
};

inline torch::Tensor loss_of(torch::nn::Sequential& net, const Batch& batch) {
  return torch::nn::functional::cross_entropy(net->forward(batch.images), batch.labels);
}

inline torch::nn::Sequential make_network(const std::string& name) {
  torch::manual_seed(1);
  return name == "mnist" ? mnist() : vgg16(name == "vgg16-small");
}

// The median step in milliseconds, after a few that do not count; rank 0 says it.
template <typename Step>
void time_steps(int rank, const std::string& name, const Step& step) {
  const bool small = name == "mnist";
  const int steps = small ? 1000 : 12;
  torch::manual_seed(100 + rank);
  const Batch batch{small ? torch::randn({64, 1, 28, 28}) : torch::randn({32, 3, 32, 32}),
                    torch::randint(10, {small ? 64 : 32})};
  std::vector<double> took;
  for (int s = 0; s < steps + 3; ++s) {
    const auto begin = std::chrono::steady_clock::now();
    step(batch);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    if (s >= 3) took.push_back(ms.count());
  }
  std::nth_element(took.begin(), took.begin() + steps / 2, took.end());
  if (rank == 0) std::cout << took[steps / 2] << std::endl;
}
