// plain.cc as one of N.
//
//   tutti launch -n 2 -- distributed FOLDER [EPOCHS]
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <chrono>
#include <iostream>

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d first{register_module("first", torch::nn::Conv2d(1, 10, 5))};
  torch::nn::Conv2d second{register_module("second", torch::nn::Conv2d(10, 20, 5))};
  torch::nn::Dropout2d drop_maps{register_module("drop_maps", torch::nn::Dropout2d())};
  torch::nn::Linear dense{register_module("dense", torch::nn::Linear(320, 50))};
  torch::nn::Linear last{register_module("last", torch::nn::Linear(50, 10))};
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(first(x), 2));
    x = torch::relu(torch::max_pool2d(drop_maps(second(x)), 2));
    x = torch::relu(dense(x.flatten(1)));
    return torch::log_softmax(last(torch::dropout(x, 0.5, is_training())), 1);
  }
};
TORCH_MODULE(Net);

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/mnist";
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 1;
  using torch::data::datasets::MNIST;
  const auto prepared = [&](MNIST::Mode mode) {
    return MNIST(folder, mode)
        .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
        .map(torch::data::transforms::Stack<>());
  };
  auto session = tutti::Session::join();
  torch::manual_seed(session.rank());
  Net net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01 * session.size()).momentum(0.5));
  tutti::Distributed distributed(session, *net, sgd);
  auto training = prepared(MNIST::Mode::kTrain);
  const auto samples = training.size().value();
  torch::data::samplers::DistributedRandomSampler sampler(samples, session.size(), session.rank());
  auto loader = torch::data::make_data_loader(std::move(training), std::move(sampler), 64);
  auto test = torch::data::make_data_loader(prepared(MNIST::Mode::kTest), 1000);

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    net->train();
    for (auto& batch : *loader) {
      sgd.zero_grad();
      torch::nll_loss(net(batch.data), batch.target).backward();
      distributed.step();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    net->eval();
    const torch::NoGradGuard no_grad;
    std::int64_t right = 0;
    for (auto& batch : *test) right += (net(batch.data).argmax(1) == batch.target).sum().item<std::int64_t>();
    if (session.rank() > 0) continue;
    std::cout << "epoch " << epoch << ": " << took.count() << " s, accuracy " << right / 10000.0 << std::endl;
  }
}
