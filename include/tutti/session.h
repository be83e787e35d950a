// This process's place in a job, and what its processes can do together.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tutti/export.h"

namespace tutti {

namespace library {
class Member;
struct MakeSession;
}  // namespace library

enum class ReduceOp { sum, average, min, max };

// One for the job, and one for each group; moved, never copied. One thread uses it.
//
// Every process makes the same calls in the same order, with tensors of the same shape and type; a call
// returns when all have made it, but for a broadcast's root, which need not wait. One that fails throws what
// tutti/error.h says; the text names the process that is to blame, and nothing works after a PeerError. A
// process that dies ends the waits of the others at once, one that does not come ends them after the job's
// time-out (`tutti launch --timeout`).
class TUTTI_API Session {
 public:
  // As one of the processes that a launcher has started: `tutti launch`, torchrun, mpirun, srun and others
  // (docs/joining.md); alone where none has. Blocks until all have joined. Once in a process. From then on
  // glibc's malloc keeps what the process frees for what it allocates next (mallopt), because a training step
  // asks for the same memory again and again; unless $GLIBC_TUNABLES, $MALLOC_MMAP_THRESHOLD_,
  // $MALLOC_TRIM_THRESHOLD_ or $MALLOC_TOP_PAD_ is set.
  static Session join();

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int rank() const;        // 0 to size() - 1
  int size() const;        // processes of the job, or of the group
  int local_rank() const;  // among those of this host
  int local_size() const;

  void barrier();

  // The tensor becomes its sum, mean, least or greatest over all processes, element by element, with the same
  // bits on each. Dense tensors on the CPU: floats of 16, 32 and 64 bits, bfloat16, signed integers, bytes
  // and truth values. Means of integers are rounded towards zero.
  void all_reduce(torch::Tensor& tensor, ReduceOp op = ReduceOp::average);

  // Everybody's tensor, by rank, along a new first dimension.
  torch::Tensor all_gather(const torch::Tensor& tensor);
  std::vector<std::string> all_gather(const std::string& text);

  // Everybody's becomes that of `root`.
  void broadcast(torch::Tensor& tensor, int root = 0);
  void broadcast(std::string& text, int root = 0);

  // Some of these processes as a session of their own, ranked in the order given. Called by these alone.
  Session group(const std::vector<int>& ranks);

 private:
  friend class Distributed;
  friend struct library::MakeSession;
  explicit Session(std::unique_ptr<library::Member> member);
  std::unique_ptr<library::Member> member_;
};

}  // namespace tutti
