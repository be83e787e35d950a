// A meeting through PMI, version 1: the process manager that has started us (MPICH's hydra, SLURM with
// `srun --mpi=pmi2`) keeps keys and values for the job, and a barrier makes them known to all. It is spoken
// in lines of text over a descriptor that we have inherited; no library of MPI is needed.
//
//   cmd=put kvsname=K key=tutti-ROUND-RANK-PIECE value=HEX    as many as a text needs
//   cmd=barrier_in                                            until all have put theirs
//   cmd=get kvsname=K key=...                                 for each rank
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file.h"
#include "rendezvous/meeting.h"

namespace tutti::joining {

class PmiMeeting final : public rendezvous::Meeting {
 public:
  // Takes the descriptor over. Blocks until all processes have come, `timeout` at most. Throws RunError.
  PmiMeeting(int fd, Rank rank, int world, Clock::duration timeout);

  Rank rank() const override { return rank_; }
  int world() const override { return world_; }
  std::vector<std::string> all_gather(const std::string& mine) override;
  void finish() override;

 private:
  std::string ask(const std::string& command, std::string_view answer, Deadline deadline);
  std::string read_line(Deadline deadline);
  std::string key(Rank of, std::size_t piece) const;
  std::string get(Rank of, std::size_t piece, Deadline deadline);
  void barrier(Deadline deadline);

  UniqueFd fd_;
  Rank rank_;
  int world_;
  std::string rest_;         // read, and no whole line yet
  std::string kvs_;          // the name of the job's keys and values
  std::size_t longest_ = 0;  // value
  int round_ = 0;
};

}  // namespace tutti::joining
