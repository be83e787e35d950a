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
}

enum class ReduceOp { sum, average, min, max };

// One a process; moved, never copied. One thread uses it.
//
// Every process of the job makes the same calls in the same order, with tensors of the same shape and type; a
// call returns when all have made it. One that fails throws an exception derived from std::runtime_error,
// whose text names the process that is to blame; nothing works after it. A process that dies ends the waits
// of the others at once, one that does not come ends them after the job's time-out (`tutti launch
// --timeout`).
class TUTTI_API Session {
 public:
  // As one of the job whose launcher has started this process; alone where none has. Blocks until all have
  // joined.
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
  // bits on each. Tensors of any type but complex, on the CPU. Means of integers are rounded towards zero.
  void all_reduce(torch::Tensor& tensor, ReduceOp op = ReduceOp::average);

  // Everybody's tensor, by rank, along a new first dimension.
  torch::Tensor all_gather(const torch::Tensor& tensor);
  std::vector<std::string> all_gather(const std::string& text);

  // Everybody's becomes that of `root`.
  void broadcast(torch::Tensor& tensor, int root = 0);
  void broadcast(std::string& text, int root = 0);

  // Some of these processes as a session of their own, ranked in the order given. Called by these alone.
  Session group(const std::vector<int>& ranks);

  // For the library itself.
  explicit Session(std::unique_ptr<library::Member> member);

 private:
  friend class Distributed;
  std::unique_ptr<library::Member> member_;
};

}  // namespace tutti
