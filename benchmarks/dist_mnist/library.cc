// The same on tutti's library.
//
//   tutti launch -n 2 --no-prefix -- ./library mnist|vgg16|vgg16-small
#include <tutti/tutti.h>

#include "networks.h"

int main(int, char** argv) {
  auto session = tutti::Session::join();
  auto net = make_network(argv[1]);
  torch::optim::SGD sgd(net->parameters(), 0.01);
  tutti::Distributed training(session, *net, sgd);
  time_steps(session.rank(), argv[1], [&](const Batch& batch) {
    sgd.zero_grad();
    loss_of(net, batch).backward();
    training.step();
  });
}
