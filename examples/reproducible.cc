// A training that ends with the same bits at every number of processes, under every strategy that keeps step.
//
//   tutti launch -n 1 -- ./reproducible local
//   tutti launch -n 3 -- ./reproducible ps-sync     prints the same number
//
// It learns which points lie inside a circle. A step has 8 shards of 16 points, whoever computes them.
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>
#include <string>
#include <string_view>

namespace nn = torch::nn;

// A number that a single bit of the model changes.
std::size_t digest_of(const nn::Module& net) {
  std::size_t digest = 0;
  const auto add = [&](const torch::Tensor& t) {
    const std::string_view bytes(static_cast<const char*>(t.data_ptr()), t.nbytes());
    digest = digest * 31 + std::hash<std::string_view>()(bytes);
  };
  for (const auto& parameter : net.parameters()) add(parameter);
  for (const auto& buffer : net.buffers()) add(buffer);
  return digest;
}

int main(int argc, char** argv) {
  auto session = tutti::Session::join();
  torch::manual_seed(1);  // the first weights
  nn::Sequential net(nn::Linear(2, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Dropout(0.1), nn::Linear(32, 2));
  torch::optim::Adam adam(net->parameters(), 0.01);
  const std::string strategy = argc > 1 ? argv[1] : "allreduce";
  tutti::Distributed training(session, *net, adam, {.strategy = strategy, .shards = 8});

  for (int step = 0; step < 300; ++step) {
    adam.zero_grad();
    for ([[maybe_unused]] const int shard : training.shards()) {
      const auto points = torch::randn({16, 2});  // what is drawn here follows from the step and the shard
      const auto inside = (points.norm(2, 1) < 1).to(torch::kLong);
      nn::functional::cross_entropy(net->forward(points), inside).backward();
    }
    training.step();
  }
  training.finish();

  net->eval();
  const auto points = torch::randn({2000, 2});
  const auto right = net->forward(points).argmax(1) == (points.norm(2, 1) < 1);
  const auto accuracy = right.to(torch::kFloat32).mean().item<float>();
  if (session.rank() == 0) std::cout << "the model is " << digest_of(*net) << "\n";
  return accuracy > 0.9 ? 0 : 1;
}
