// A hook of one's own: the median of everybody's gradients instead of their mean, so that a process which
// brings nonsense does no harm (Yin et al. 2018).
//
//   tutti launch -n 3 -- ./median_hook         learns, though the last process brings nonsense
//   tutti launch -n 3 -- ./median_hook mean    does not
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>
#include <string>

class Median final : public tutti::Hook {
 public:
  void average(tutti::Workers& all, int /*bucket*/, torch::Tensor gradients) override {
    gradients.copy_(std::get<0>(all.all_gather(gradients).median(0)));
  }
};

int main(int argc, char** argv) {
  const bool mean = argc > 1 && std::string(argv[1]) == "mean";
  auto session = tutti::Session::join();
  torch::manual_seed(session.rank());
  torch::nn::Linear net(5, 1);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  tutti::DistributedOptions options;
  if (!mean) options.hook = std::make_shared<Median>();
  tutti::Distributed training(session, *net, sgd, options);

  // It learns to add up five numbers.
  const auto loss_on = [&](int samples) {
    const auto x = torch::randn({samples, 5});
    return torch::mse_loss(net(x).squeeze(1), x.sum(1));
  };
  const bool nonsense = session.rank() > 0 && session.rank() == session.size() - 1;
  for (int step = 0; step < 60; ++step) {
    sgd.zero_grad();
    auto loss = loss_on(64);
    if (nonsense) loss = -10 * loss;
    loss.backward();
    training.step();
  }
  training.finish();

  auto loss = loss_on(1000).detach();
  session.all_reduce(loss);
  const bool learned = loss.item<float>() < 0.1;
  if (session.rank() == 0) std::cout << (mean ? "mean" : "median") << ": loss " << loss.item<float>() << "\n";
  return learned != (mean && session.size() > 1) ? 0 : 1;
}
