// Large embeddings with parameter servers: of a table's gradient only the rows travel that a step has read.
//
//   tutti launch -n 2 -- ./embeddings            asynchronous servers
//   tutti launch -n 2 -- ./embeddings hybrid     rows by servers, the rest by all-reduce
//
// It learns who likes what: people and things each have a hidden taste of four numbers, and a rating is how
// well the two agree.
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <iostream>

constexpr int kPeople = 20000;
constexpr int kThings = 2000;

struct RatingsImpl : torch::nn::Module {
  torch::nn::Embedding people{register_module("people", torch::nn::Embedding(kPeople, 16))};
  torch::nn::Embedding things{register_module("things", torch::nn::Embedding(kThings, 16))};
  torch::nn::Linear mix{register_module("mix", torch::nn::Linear(16, 1))};

  RatingsImpl() {
    const torch::NoGradGuard no_grad;
    people->weight.mul_(0.1);
    things->weight.mul_(0.1);
    mix->weight.fill_(1);
  }
  torch::Tensor forward(const torch::Tensor& who, const torch::Tensor& what) {
    return mix(people(who) * things(what)).squeeze(1);
  }
};
TORCH_MODULE(Ratings);

int main(int argc, char** argv) {
  auto session = tutti::Session::join();
  torch::manual_seed(1);
  const auto taste_of_people = torch::randn({kPeople, 4}) / 2;
  const auto taste_of_things = torch::randn({kThings, 4}) / 2;
  torch::manual_seed(100 + session.rank());

  Ratings model;
  torch::optim::Adagrad adagrad(model->parameters(), 0.3);
  tutti::Distributed training(session, *model, adagrad, {.strategy = argc > 1 ? argv[1] : "ps-async"});
  // Few people and things are asked often, as it is.
  const auto loss_on = [&](int samples) {
    const auto who = (torch::rand({samples}).pow(3) * 2000).to(torch::kInt64);
    const auto what = (torch::rand({samples}).pow(3) * 200).to(torch::kInt64);
    const auto rating = (taste_of_people.index({who}) * taste_of_things.index({what})).sum(1);
    return torch::mse_loss(model(who, what), rating);
  };
  auto before = loss_on(2000).detach();
  const int steps = 600;
  for (int step = 0; step < steps; ++step) {
    adagrad.zero_grad();
    loss_on(256).backward();
    training.step();
  }
  training.finish();

  auto after = loss_on(2000).detach();
  session.all_reduce(before);
  session.all_reduce(after);
  const double whole = 4.0 * 16 * (kPeople + kThings);  // bytes of the tables
  const double sent = static_cast<double>(training.bytes_sent()) / steps;
  if (session.rank() == 0) {
    std::cout << "loss " << before.item<float>() << ", then " << after.item<float>() << "; sent "
              << sent / 1024 << " KB a step, the tables have " << whole / 1024 << " KB\n";
  }
  return after.item<float>() < before.item<float>() / 2 && sent < whole / 4 ? 0 : 1;
}
