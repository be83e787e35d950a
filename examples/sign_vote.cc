// A strategy of one's own, added outside the library: signSGD with majority vote (Bernstein et al. 2018).
// Every process tells the sign of each number of its gradient; the optimizer takes what most of them say.
//
//   tutti launch -n 3 -- ./sign_vote
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>

class SignVote final : public tutti::Strategy {
 public:
  explicit SignVote(tutti::Training& training) : training_(training) {}

  void on_gradients(int bucket) override {
    votes_.push_back(training_.gradients(bucket).sign().to(torch::kBFloat16));  // half the bytes
  }

  void finish_step() override {
    for (int bucket = 0; bucket < training_.buckets(); ++bucket) {
      training_.workers().all_reduce(votes_[bucket], tutti::ReduceOp::sum);
      training_.gradients(bucket).copy_(votes_[bucket].sign());
      training_.update(bucket);
    }
    votes_.clear();
  }

 private:
  tutti::Training& training_;
  std::vector<torch::Tensor> votes_;  // by bucket, in this step
};

int main() {
  tutti::add_strategy("sign-vote", "the sign that most gradients have",
                      [](tutti::Training& training) { return std::make_unique<SignVote>(training); });

  auto session = tutti::Session::join();
  torch::manual_seed(session.rank());
  torch::nn::Sequential net(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  torch::optim::SGD sgd(net->parameters(), 0.002);
  tutti::Distributed training(session, *net, sgd, {.strategy = "sign-vote"});

  // It learns the product of two of eight numbers, from samples that every process draws for itself.
  const auto loss_on = [&](int samples) {
    const auto x = torch::rand({samples, 8}) * 2 - 1;
    const auto y = x.index({torch::indexing::Slice(), 0}) * x.index({torch::indexing::Slice(), 1});
    return torch::mse_loss(net->forward(x).squeeze(1), y);
  };
  for (int step = 0; step < 1500; ++step) {
    sgd.zero_grad();
    loss_on(64).backward();
    training.step();
  }
  training.finish();

  auto loss = loss_on(4000).detach();
  session.all_reduce(loss);
  if (session.rank() == 0) std::cout << "loss " << loss.item<float>() << ", of a guess 0.111\n";
  return loss.item<float>() < 0.02 ? 0 : 1;
}
