// As people do it today, after PyTorch's own distributed C++ example: an all-reduce of every gradient after
// backward.
//
//   mpirun -np 2 ./mpi mnist|vgg16|vgg16-small [wait]      wait: one after another, as c10d's MPI does; else
//   all at once
#include <mpi.h>

#include "networks.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto net = make_network(argv[1]);
  const bool wait = argc > 2;
  const auto parameters = net->parameters();
  for (const auto& p : parameters) {
    MPI_Bcast(p.data_ptr<float>(), static_cast<int>(p.numel()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  torch::optim::SGD sgd(parameters, 0.01);
  time_steps(rank, argv[1], [&](const Batch& batch) {
    sgd.zero_grad();
    loss_of(net, batch).backward();
    std::vector<MPI_Request> works(parameters.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto* gradient = parameters[i].grad().data_ptr<float>();
      const int count = static_cast<int>(parameters[i].numel());
      if (wait) {
        MPI_Allreduce(MPI_IN_PLACE, gradient, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      } else {
        MPI_Iallreduce(MPI_IN_PLACE, gradient, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &works[i]);
      }
    }
    MPI_Waitall(static_cast<int>(works.size()), works.data(), MPI_STATUSES_IGNORE);
    for (const auto& p : parameters) p.grad().div_(ranks);
    sgd.step();
  });
  MPI_Finalize();
}
