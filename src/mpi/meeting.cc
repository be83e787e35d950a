#include <algorithm>
#include <cctype>
#include <cstdint>
#include <numeric>

#include "config/environment.h"
#include "config/flags.h"
#include "mpi/call.h"
#include "mpi/mpi.h"
#include "mpi/transport.h"

namespace tutti::mpi {
namespace {

bool initialised() {
  int yes = 0;
  MPI_Initialized(&yes);
  return yes != 0;
}

class World final : public rendezvous::Meeting {
 public:
  explicit World(Threads threads) {
    const int level = threads == Threads::at_once ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    call(MPI_Init_thread(nullptr, nullptr, level, &threads_), "MPI_Init_thread");
    if (threads_ < MPI_THREAD_SERIALIZED)
      throw RunError(fmt::format("{} was built without support for threads", library()));
    // Failures come back to us instead of ending the process without a word of ours.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    call(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    call(MPI_Comm_size(MPI_COMM_WORLD, &world_), "MPI_Comm_size");
  }

  Rank rank() const override { return Rank{rank_}; }
  int world() const override { return world_; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    const auto n = static_cast<std::size_t>(world_);
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(n);
    call(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
    std::vector<int> begins(n);
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    std::string all(static_cast<std::size_t>(begins.back() + lengths.back()), '\0');
    call(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR,
                        MPI_COMM_WORLD),
         "MPI_Allgatherv");
    std::vector<std::string> texts;
    for (std::size_t r = 0; r < n; ++r) {
      texts.push_back(all.substr(static_cast<std::size_t>(begins[r]), static_cast<std::size_t>(lengths[r])));
    }
    return texts;
  }

  rendezvous::Connector connector(const std::vector<int>& process_of) override {
    // A process that was told otherwise, by its environment, has not asked for it.
    int all = threads_;
    call(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
    if (all < MPI_THREAD_MULTIPLE)
      throw ConfigError(
          fmt::format("--transport mpi needs MPI_THREAD_MULTIPLE in every process, and {} gives some of them "
                      "less; does each have the same flags and variables?",
                      library()));
    return make_connector(process_of);
  }

  void finish() override { call(MPI_Finalize(), "MPI_Finalize"); }

 private:
  int threads_ = MPI_THREAD_SINGLE;  // what MPI provides
  int rank_ = 0;
  int world_ = 1;
};

}  // namespace

std::string why_not() {
  if (initialised()) return "";
  const auto placement = config::placement(config::join_settings());
  if (placement && can_reach(*placement)) return "";
  return fmt::format(
      "{}'s mpirun has not started this process; use `mpirun -np N tutti train ...` or `bench allreduce` "
      "(compare and bisect start their processes themselves, without MPI)",
      library());
}

std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  // Open MPI tells who has built it, too, and MPICH how, on lines of their own.
  std::string name(text, static_cast<std::size_t>(length));
  name = name.substr(0, std::min(name.find(','), name.find('\n')));
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isspace(c) != 0; }, ' ');
  return name;
}

bool can_reach(const config::Placement& placement) {
  return !placement.mpi_library.empty() && library().starts_with(placement.mpi_library);
}

std::unique_ptr<rendezvous::Meeting> join(Threads threads) {
  if (initialised()) throw RunError("this process has joined MPI already");
  return std::make_unique<World>(threads);
}

}  // namespace tutti::mpi
