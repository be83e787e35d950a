// A libtorch program as one of N.
//
//   tutti launch -n 4 -- ./from_scratch            four processes, by all-reduce
//   tutti launch -n 4 -- ./from_scratch ps-async   the same with parameter servers
//   ./from_scratch                                 alone
//
// It learns which of two spirals a point lies on, from points that every process draws for itself.
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>

struct NetImpl : torch::nn::Module {
  torch::nn::Linear first{register_module("first", torch::nn::Linear(2, 64))};
  torch::nn::Linear second{register_module("second", torch::nn::Linear(64, 64))};
  torch::nn::Linear last{register_module("last", torch::nn::Linear(64, 2))};
  torch::Tensor forward(torch::Tensor x) { return last(torch::relu(second(torch::relu(first(x))))); }
};
TORCH_MODULE(Net);

// Points and the spirals that they lie on.
std::pair<torch::Tensor, torch::Tensor> draw(int count) {
  const auto spiral = torch::randint(0, 2, {count});
  const auto turn = torch::rand({count}) * 3 + 0.3;
  const auto angle = turn * 3.14159 + spiral * 3.14159;
  const auto points = torch::stack({turn * torch::cos(angle), turn * torch::sin(angle)}, 1);
  return {points + torch::randn_like(points) * 0.05, spiral};
}

int main(int argc, char** argv) {
  auto session = tutti::Session::join();
  torch::manual_seed(
      session.rank());  // every process draws its own points; first weights become those of rank 0
  Net net;
  torch::optim::Adam adam(net->parameters(), 0.01);
  tutti::Distributed training(session, *net, adam, {.strategy = argc > 1 ? argv[1] : "allreduce"});

  for (int step = 0; step < 300; ++step) {
    const auto [points, spiral] = draw(128);
    adam.zero_grad();
    torch::nn::functional::cross_entropy(net(points), spiral).backward();
    training.step();
  }
  training.finish();

  const auto [points, spiral] = draw(2000);
  auto accuracy = (net(points).argmax(1) == spiral).to(torch::kFloat32).mean();
  session.all_reduce(accuracy);
  if (session.rank() == 0)
    std::cout << session.size() << " processes, accuracy " << accuracy.item<float>() << "\n";
  return accuracy.item<float>() > 0.95 ? 0 : 1;
}
