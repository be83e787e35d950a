// A training that is ended on the way and goes on later, with the same bits as one that was not.
//
//   tutti launch -n 2 -- ./go_on            makes 300 steps, and saves after each hundred
//   tutti launch -n 2 -- ./go_on again      goes on from the newest checkpoint in ./run
//
// It fits a line to points; every process has points of its own.
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>

int main(int argc, char**) {
  const bool again = argc > 1;
  auto session = tutti::Session::join();
  torch::nn::Linear net(1, 1);
  torch::optim::Adam adam(net->parameters(), 0.05);
  tutti::Distributed training(session, *net, adam, {.strategy = "ring", .resume = again ? "run" : ""});
  for (auto step = training.steps(); step < 300; ++step) {
    torch::manual_seed(step * session.size() +
                       session.rank());  // the points of this step, whenever it is made
    const auto x = torch::rand({64, 1});
    adam.zero_grad();
    torch::mse_loss(net(x), 3 * x + 1).backward();
    training.step();
    if (training.steps() % 100 == 0) training.save("run");  // run/checkpoints/step-100
  }
  training.finish();
  const auto slope = net->weight.item<float>();
  if (session.rank() == 0)
    std::cout << "after " << training.steps() << " steps the slope is " << slope << "\n";
  return std::abs(slope - 3) < 0.5 ? 0 : 1;
}
