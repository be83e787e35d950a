// The network of PyTorch's C++ MNIST example under a compression hook.
//
//   tutti launch -n 2 --no-prefix -- ./hooks FOLDER HOOK SEED EPOCHS [SHARE]
//
// SHARE is top-k's. Rank 0 says the test accuracy and the bytes that it sent.
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>
#include <map>

int main(int argc, char** argv) {
  using namespace torch::nn;
  using torch::data::datasets::MNIST;
  const std::string folder = argv[1];
  const std::map<std::string, std::function<std::shared_ptr<tutti::Hook>()>> hooks = {
      {"none", [] { return nullptr; }},
      {"bf16", tutti::bf16_hook},
      {"fp16", tutti::fp16_hook},
      {"top-k", [=] { return tutti::top_k_hook(argc > 5 ? std::stod(argv[5]) : 0.01); }},
      {"power-sgd", [] { return tutti::power_sgd_hook(2); }}};
  auto session = tutti::Session::join();
  torch::manual_seed(std::stoi(argv[3]) * 1000 + session.rank());
  Sequential net(Conv2d(1, 10, 5), MaxPool2d(2), ReLU(), Conv2d(10, 20, 5), Dropout2d(), MaxPool2d(2), ReLU(),
                 Flatten(), Linear(320, 50), ReLU(), Dropout(), Linear(50, 10));
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01 * session.size()).momentum(0.5));
  tutti::Distributed training(session, *net, sgd, {.hook = hooks.at(argv[2])()});
  const auto prepared = [&](MNIST::Mode mode) {
    return MNIST(folder, mode)
        .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
        .map(torch::data::transforms::Stack<>());
  };
  auto data = prepared(MNIST::Mode::kTrain);
  torch::data::samplers::DistributedRandomSampler sampler(data.size().value(), session.size(),
                                                          session.rank());
  const auto loader = torch::data::make_data_loader(std::move(data), std::move(sampler), 64);
  for (int epoch = 0; epoch < std::stoi(argv[4]); ++epoch) {
    for (auto& batch : *loader) {
      sgd.zero_grad();
      functional::cross_entropy(net->forward(batch.data), batch.target).backward();
      training.step();
    }
  }
  training.finish();
  net->eval();
  const torch::NoGradGuard no_grad;
  std::int64_t right = 0;
  const auto test = torch::data::make_data_loader(prepared(MNIST::Mode::kTest), 1000);
  for (auto& batch : *test) {
    right += (net->forward(batch.data).argmax(1) == batch.target).sum().item<std::int64_t>();
  }
  if (session.rank() == 0) std::cout << right / 100.0 << ' ' << training.bytes_sent() << std::endl;
}
