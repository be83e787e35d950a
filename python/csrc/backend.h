// The c10d backend "tutti": what torch.distributed calls.
//
// Every method checks its arguments, submits a work and returns its handle; collectives are done in order
// (work.h), sends and receives beside them (mailbox.h). Tensors are of the CPU. As everywhere in c10d, ranks
// issue collectives in the same order, and leave tensors alone until the work is waited for.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "c10d_types.h"
#include "group.h"
#include "reducible.h"
#include "work.h"

namespace tutti::torch_backend {

class TuttiBackend : public BackendBase {
 public:
  // Blocks until all ranks have joined. Throws RunError, ConfigError.
  TuttiBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout);
  ~TuttiBackend() override { close(); }

  const std::string getBackendName() const override { return "tutti"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  // Blocks. Rank 0 throws RunError that names who has not come in time: the first, or all with
  // `wait_all_ranks`.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return submitted_; }

  // Not every version of c10d has these.
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options);
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options);
  void abort() { close(); }
  void shutdown() { close(); }

 protected:
  // Ends what runs, fails what has not begun, and waits for callbacks: not, if a collective's callback calls,
  // for that one.
  void close();

 private:
  template <class AnyOptions>
  WorkPtr submit(Subject subject, Job job, const AnyOptions& options);
  Job all_reduce_job(const at::Tensor& tensor, collectives::ReduceOp op);
  WorkPtr send_message(const at::Tensor& tensor, Rank to, std::uint64_t tag);
  WorkPtr receive(const at::Tensor& tensor, std::optional<Rank> from, std::uint64_t tag, const char* title,
                  c10d::OpType type);
  void gather_at_first(std::uint64_t tag, std::chrono::milliseconds timeout, bool wait_all_ranks);
  void report_to_first(std::uint64_t tag, std::chrono::milliseconds timeout);

  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Group> group_;
  const std::shared_ptr<WorkQueue> queue_ = std::make_shared<WorkQueue>();
  std::atomic<std::uint64_t> submitted_{0};
  std::uint64_t monitored_ = 0;  // barriers so far
};

}  // namespace tutti::torch_backend
