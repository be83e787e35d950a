#include "backend.h"

#include <cstring>

#include "arguments.h"
#include "base/error.h"
#include "host_copies.h"
#include "tensor_collectives.h"

namespace tutti::torch_backend {
namespace {

// The first of these bytes become the tensor's elements, whatever its strides.
void copy_into(const at::Tensor& tensor, ConstBytes bytes) {
  const at::Tensor flat = tensor.contiguous();
  std::memcpy(flat.data_ptr(), bytes.data(), flat.nbytes());
  if (flat.data_ptr() != tensor.data_ptr()) tensor.copy_(flat);
}

std::vector<Tensors> room_for(HostCopies& host, const std::vector<Tensors>& outputs) {
  std::vector<Tensors> room;
  for (const Tensors& list : outputs) room.push_back(host.outputs(list));
  return room;
}

// Newer versions say whether the caller waits for a work as soon as it has it.
template <class AnyOptions>
bool waits_at_once(const AnyOptions& options) {
  if constexpr (requires { options.asyncOp; }) return !options.asyncOp;
  return false;
}

}  // namespace

TuttiBackend::TuttiBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           std::chrono::milliseconds timeout)
    : BackendBase(rank, size), timeout_(timeout), group_([&] {
        StoreMeeting meeting(std::move(store), rank, size);
        return std::make_shared<Group>(connect(meeting, options_from_environment(timeout)));
      }()) {}

void TuttiBackend::close() {
  // A callback may wait for works and for messages: both are ended before it is waited for.
  queue_->close([this] { group_->cancel(); });
  group_->messages().cancel();
  queue_->join();
  group_->messages().close();
}

template <class AnyOptions>
WorkPtr TuttiBackend::submit(Subject subject, Job job, const AnyOptions& options) {
  ++submitted_;
  const auto work = c10::make_intrusive<QueuedWork>(rank_, std::move(subject), std::move(job), queue_);
  const bool limited = options.timeout != c10d::kUnsetTimeout;
  if (limited) work->limit(options.timeout);
  // The caller's thread would do it at once, and could not give up when the time is over; wait() can.
  queue_->submit(work, waits_at_once(options) && !limited);
  return work;
}

Job TuttiBackend::all_reduce_job(const at::Tensor& tensor, collectives::ReduceOp op) {
  const auto reducible = std::make_shared<Reducible>(tensor, op);
  Group* const group = group_.get();
  if (!group->is_small(reducible->bytes())) {
    return {.run = [=] {
      group->all_reduce(reducible->load(), op);
      reducible->store();
    }};
  }
  const auto begin = [=] {
    const auto mine = reducible->load();
    std::memcpy(group->shared().place().data(), mine.data, mine.bytes());
    group->shared().publish(
        announcement(Shared::all_reduce, mine.bytes(), static_cast<int>(mine.type), static_cast<int>(op)));
  };
  const auto finish = [=] {
    Exchange& shared = group->shared();
    shared.await_all({"all-reduce"});
    const auto into = reducible->loaded();
    // In the order of ranks, for the same bits everywhere.
    std::memcpy(into.data, shared.place_of(Rank{0}).data(), into.bytes());
    for (int r = 1; r < group->world(); ++r) {
      collectives::combine(into.type, op, into.data, shared.place_of(Rank{r}).data(), into.count);
    }
    if (op == collectives::ReduceOp::average)
      collectives::divide(into.type, into.data, into.count, group->world());
    reducible->store();
  };
  return {.begin = begin, .finish = finish};
}

WorkPtr TuttiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (HostCopies::needed(tensors)) {
    HostCopies host;
    Tensors copies = host.changed(tensors);
    return host.copy_back_after(allreduce(copies, options));
  }
  const at::Tensor tensor = only(tensors);
  const auto op = reduce_op(options.reduceOp);
  if (tensor.layout() == at::kSparse) {
    return submit({c10d::OpType::ALLREDUCE, "tutti:sparse_all_reduce", tensors, tensors},
                  {.run = [group = group_.get(), tensor, op] { all_reduce_sparse(*group, tensor, op); }},
                  options);
  }
  return submit({c10d::OpType::ALLREDUCE, "tutti:all_reduce", tensors, tensors}, all_reduce_job(tensor, op),
                options);
}

WorkPtr TuttiBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (HostCopies::needed(tensors)) {
    HostCopies host;
    Tensors copies = host.changed(tensors);
    return host.copy_back_after(allreduce_coalesced(copies, options));
  }
  const auto op = reduce_op(options.reduceOp);
  for (const at::Tensor& tensor : tensors) require_dense_on_cpu(tensor);
  if (tensors.empty()) throw ConfigError("backend tutti: no tensors to reduce");
  return submit({c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", tensors, tensors},
                {.run = [group = group_.get(), tensors, op] { all_reduce_coalesced(*group, tensors, op); }},
                options);
}

WorkPtr TuttiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (HostCopies::needed(tensors)) {
    HostCopies host;
    Tensors copies = host.changed(tensors);
    return host.copy_back_after(reduce(copies, options));
  }
  const at::Tensor tensor = only_dense(tensors);
  const auto op = reduce_op(options.reduceOp);
  const int root = static_cast<int>(options.rootRank);
  require_root(root, size_);
  return submit(
      {c10d::OpType::REDUCE, "tutti:reduce", tensors, tensors},
      {.run = [group = group_.get(), tensor, op, root] { torch_backend::reduce(*group, tensor, op, root); }},
      options);
}

WorkPtr TuttiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (HostCopies::needed(tensors)) {
    HostCopies host;
    Tensors copies = host.changed(tensors);
    return host.copy_back_after(broadcast(copies, options));
  }
  const at::Tensor tensor = only_dense(tensors);
  const int root = static_cast<int>(options.rootRank);
  require_root(root, size_);
  Subject subject{c10d::OpType::BROADCAST, "tutti:broadcast", tensors, tensors};
  Group* const group = group_.get();
  if (!group->is_small(tensor.nbytes())) {
    return submit(std::move(subject), {.run = [=] { torch_backend::broadcast(*group, tensor, root); }},
                  options);
  }
  const auto begin = [=] {
    if (group->rank() == root) {
      const at::Tensor mine = tensor.contiguous();
      std::memcpy(group->shared().place().data(), mine.data_ptr(), mine.nbytes());
    }
    group->shared().publish(announcement(Shared::broadcast, tensor.nbytes(), 0, 0, root));
  };
  const auto finish = [=] {
    group->shared().await_all({"broadcast"});
    if (group->rank() != root) copy_into(tensor, group->shared().place_of(Rank{root}));
  };
  return submit(std::move(subject), {.begin = begin, .finish = finish}, options);
}

WorkPtr TuttiBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::AllgatherOptions& options) {
  if (HostCopies::needed(inputs)) {
    HostCopies host;
    Tensors copies = host.inputs(inputs);
    auto room = room_for(host, outputs);
    return host.copy_back_after(allgather(room, copies, options));
  }
  const at::Tensor input = only_dense(inputs);
  const Tensors all = one_a_rank(outputs, size_);
  require_same_bytes(input, all);
  Subject subject{c10d::OpType::ALLGATHER, "tutti:all_gather", inputs, all};
  Group* const group = group_.get();
  if (!group->is_small(input.nbytes())) {
    return submit(std::move(subject), {.run = [=] { all_gather(*group, input, all); }}, options);
  }
  const auto begin = [=] {
    const at::Tensor mine = input.contiguous();
    std::memcpy(group->shared().place().data(), mine.data_ptr(), mine.nbytes());
    group->shared().publish(announcement(Shared::all_gather, mine.nbytes()));
  };
  const auto finish = [=] {
    group->shared().await_all({"all-gather"});
    for (std::size_t r = 0; r < all.size(); ++r) {
      copy_into(all[r], group->shared().place_of(Rank{static_cast<int>(r)}));
    }
  };
  return submit(std::move(subject), {.begin = begin, .finish = finish}, options);
}

WorkPtr TuttiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::AllgatherOptions& options) {
  if (HostCopies::needed({input})) {
    HostCopies host;
    at::Tensor copy = host.inputs({input}).front();
    at::Tensor room = host.outputs({output}).front();
    return host.copy_back_after(_allgather_base(room, copy, options));
  }
  std::vector<Tensors> parts = {equal_parts(output, size_)};
  Tensors inputs = {input};
  return allgather(parts, inputs, options);
}

WorkPtr TuttiBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  if (HostCopies::needed(inputs)) {
    HostCopies host;
    Tensors copies = host.inputs(inputs);
    auto room = room_for(host, outputs);
    return host.copy_back_after(allgather_coalesced(room, copies, options));
  }
  if (static_cast<int>(outputs.size()) != size_)
    throw ConfigError(fmt::format("backend tutti: {} lists where one a rank is expected", outputs.size()));
  Tensors all;
  std::vector<Tensors> by_input(inputs.size());
  for (const Tensors& of_rank : outputs) {
    if (of_rank.size() != inputs.size())
      throw ConfigError("backend tutti: as many outputs a rank as inputs are expected");
    for (std::size_t i = 0; i < inputs.size(); ++i) by_input[i].push_back(of_rank[i]);
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) require_same_bytes(inputs[i], by_input[i]);
  return submit({c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather", inputs, all},
                {.run =
                     [group = group_.get(), inputs, by_input] {
                       for (std::size_t i = 0; i < inputs.size(); ++i)
                         all_gather(*group, inputs[i], by_input[i]);
                     }},
                options);
}

WorkPtr TuttiBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  if (HostCopies::needed(inputs)) {
    HostCopies host;
    Tensors copies = host.inputs(inputs);
    Tensors room = host.outputs(outputs);
    return host.copy_back_after(allgather_into_tensor_coalesced(room, copies, options));
  }
  std::vector<Tensors> by_rank(static_cast<std::size_t>(size_));
  for (const at::Tensor& output : outputs) {
    const Tensors parts = equal_parts(output, size_);
    for (std::size_t r = 0; r < parts.size(); ++r) by_rank[r].push_back(parts[r]);
  }
  return allgather_coalesced(by_rank, inputs, options);
}

WorkPtr TuttiBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                             const c10d::GatherOptions& options) {
  if (HostCopies::needed(inputs)) {
    HostCopies host;
    Tensors copies = host.inputs(inputs);
    auto room = room_for(host, outputs);
    return host.copy_back_after(gather(room, copies, options));
  }
  const at::Tensor input = only_dense(inputs);
  const int root = static_cast<int>(options.rootRank);
  require_root(root, size_);
  const Tensors all = rank_ == root ? one_a_rank(outputs, size_) : Tensors{};
  if (rank_ != root && !outputs.empty())
    throw ConfigError("backend tutti: outputs of a gather are for its root alone");
  require_same_bytes(input, all);
  return submit(
      {c10d::OpType::GATHER, "tutti:gather", inputs, all},
      {.run = [group = group_.get(), input, all, root] { torch_backend::gather(*group, input, all, root); }},
      options);
}

WorkPtr TuttiBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                              const c10d::ScatterOptions& options) {
  if (HostCopies::needed(outputs)) {
    HostCopies host;
    std::vector<Tensors> copies;
    for (const Tensors& list : inputs) copies.push_back(host.inputs(list));
    Tensors room = host.outputs(outputs);
    return host.copy_back_after(scatter(room, copies, options));
  }
  const at::Tensor output = only_dense(outputs);
  const int root = static_cast<int>(options.rootRank);
  require_root(root, size_);
  const Tensors all = rank_ == root ? one_a_rank(inputs, size_) : Tensors{};
  if (rank_ != root && !inputs.empty())
    throw ConfigError("backend tutti: inputs of a scatter are for its root alone");
  require_same_bytes(output, all);
  return submit({c10d::OpType::SCATTER, "tutti:scatter", all, outputs},
                {.run = [group = group_.get(), all, output,
                         root] { torch_backend::scatter(*group, all, output, root); }},
                options);
}

WorkPtr TuttiBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                     const c10d::ReduceScatterOptions& options) {
  if (HostCopies::needed(outputs)) {
    HostCopies host;
    std::vector<Tensors> copies;
    for (const Tensors& list : inputs) copies.push_back(host.inputs(list));
    Tensors room = host.outputs(outputs);
    return host.copy_back_after(reduce_scatter(room, copies, options));
  }
  const at::Tensor output = only_dense(outputs);
  const Tensors all = one_a_rank(inputs, size_);
  const auto op = reduce_op(options.reduceOp);
  require_same_bytes(output, {all[static_cast<std::size_t>(rank_)]});
  return submit({c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", all, outputs},
                {.run = [group = group_.get(), all, output,
                         op] { torch_backend::reduce_scatter(*group, all, output, op); }},
                options);
}

WorkPtr TuttiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& options) {
  if (HostCopies::needed({input})) {
    HostCopies host;
    at::Tensor copy = host.inputs({input}).front();
    at::Tensor room = host.outputs({output}).front();
    return host.copy_back_after(_reduce_scatter_base(room, copy, options));
  }
  Tensors outputs = {output};
  std::vector<Tensors> parts = {equal_parts(input.contiguous(), size_)};
  return reduce_scatter(outputs, parts, options);
}

WorkPtr TuttiBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
  if (HostCopies::needed(inputs)) {
    HostCopies host;
    Tensors copies = host.inputs(inputs);
    Tensors room = host.outputs(outputs);
    return host.copy_back_after(reduce_scatter_tensor_coalesced(room, copies, options));
  }
  const auto op = reduce_op(options.reduceOp);
  if (outputs.size() != inputs.size())
    throw ConfigError("backend tutti: as many outputs as inputs are expected");
  std::vector<Tensors> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(equal_parts(inputs[i].contiguous(), size_));
    require_same_bytes(outputs[i], parts.back());
  }
  return submit({c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", inputs, outputs},
                {.run =
                     [group = group_.get(), parts, outputs, op] {
                       for (std::size_t i = 0; i < parts.size(); ++i) {
                         torch_backend::reduce_scatter(*group, parts[i], outputs[i], op);
                       }
                     }},
                options);
}

WorkPtr TuttiBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  if (HostCopies::needed(inputs)) {
    HostCopies host;
    Tensors copies = host.inputs(inputs);
    Tensors room = host.outputs(outputs);
    return host.copy_back_after(alltoall(room, copies, options));
  }
  one_a_rank({outputs}, size_);
  one_a_rank({inputs}, size_);
  return submit({c10d::OpType::ALLTOALL, "tutti:all_to_all", inputs, outputs},
                {.run = [group = group_.get(), inputs, outputs] { all_to_all(*group, inputs, outputs); }},
                options);
}

WorkPtr TuttiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_splits,
                                    std::vector<std::int64_t>& input_splits,
                                    const c10d::AllToAllOptions& options) {
  if (HostCopies::needed({input})) {
    HostCopies host;
    at::Tensor copy = host.inputs({input}).front();
    at::Tensor room = host.outputs({output}).front();
    return host.copy_back_after(alltoall_base(room, copy, output_splits, input_splits, options));
  }
  require_dense_on_cpu(output);
  require_dense_on_cpu(input);
  const Tensors outputs = split_rows(output, output_splits, size_);
  const Tensors inputs = split_rows(input, input_splits, size_);
  return submit({c10d::OpType::ALLTOALL_BASE, "tutti:all_to_all", {input}, {output}},
                {.run = [group = group_.get(), inputs, outputs] { all_to_all(*group, inputs, outputs); }},
                options);
}

WorkPtr TuttiBackend::barrier(const c10d::BarrierOptions& options) {
  Group* const group = group_.get();
  Job job;
  if (!group->is_small(0)) {
    job.run = [=] { group->barrier(); };
  } else {  // by this way alone: another rank may come to it at once where this one finds others queued
    job.begin = [=] { group->shared().publish(announcement(Shared::barrier, 0)); };
    job.finish = [=] { group->shared().await_all({"barrier"}); };
  }
  return submit({c10d::OpType::BARRIER, "tutti:barrier", {}, {}}, std::move(job), options);
}

}  // namespace tutti::torch_backend
