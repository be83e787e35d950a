#include "backend.h"

#include <fmt/ranges.h>

#include <cstring>

#include "base/error.h"
#include "tensor_collectives.h"

namespace tutti::torch_backend {
namespace {

const at::Tensor& only(const Tensors& tensors) {
  if (tensors.size() != 1)
    throw ConfigError(fmt::format("backend tutti: {} tensors where one is expected", tensors.size()));
  return tensors.front();
}

const at::Tensor& only_dense(const Tensors& tensors) {
  require_dense_on_cpu(only(tensors));
  return tensors.front();
}

// One tensor a rank.
const Tensors& one_a_rank(const std::vector<Tensors>& lists, int world) {
  if (lists.size() != 1 || static_cast<int>(lists.front().size()) != world)
    throw ConfigError(fmt::format("backend tutti: a list of {} tensors is expected, one a rank", world));
  for (const at::Tensor& tensor : lists.front()) require_dense_on_cpu(tensor);
  return lists.front();
}

void require_same_bytes(const at::Tensor& one, const Tensors& others) {
  for (const at::Tensor& other : others) {
    if (other.scalar_type() != one.scalar_type() || other.numel() != one.numel())
      throw ConfigError(fmt::format("backend tutti: tensors differ: {} of {} and {} of {}", one.numel(),
                                    c10::toString(one.scalar_type()), other.numel(),
                                    c10::toString(other.scalar_type())));
  }
}

void require_root(std::int64_t root, int world) {
  if (root < 0 || root >= world)
    throw ConfigError(fmt::format("backend tutti: root {} is none of 0 to {}", root, world - 1));
}

// Rows of the first dimension, as many a rank as `splits` says; equally many without it. Views, whatever the
// strides: what arrives in one is in the tensor.
Tensors split_rows(const at::Tensor& whole, std::vector<std::int64_t> splits, int world) {
  if (whole.dim() == 0) throw ConfigError("backend tutti: a tensor without dimensions cannot be split");
  if (splits.empty()) {
    if (whole.size(0) % world != 0)
      throw ConfigError(
          fmt::format("backend tutti: {} rows do not fall into {} equal parts", whole.size(0), world));
    splits.assign(static_cast<std::size_t>(world), whole.size(0) / world);
  }
  std::int64_t rows = 0;
  for (const std::int64_t split : splits) rows += split;
  if (static_cast<int>(splits.size()) != world || rows != whole.size(0))
    throw ConfigError(
        fmt::format("backend tutti: {} split sizes of {} rows in all for {} ranks and a tensor of {} rows",
                    splits.size(), rows, world, whole.size(0)));
  return whole.split_with_sizes(splits);
}

// The first of these bytes become the tensor's elements, whatever its strides.
void copy_into(const at::Tensor& tensor, ConstBytes bytes) {
  const at::Tensor flat = tensor.contiguous();
  std::memcpy(flat.data_ptr(), bytes.data(), flat.nbytes());
  if (flat.data_ptr() != tensor.data_ptr()) tensor.copy_(flat);
}

// Newer versions say whether the caller waits for a work as soon as it has it.
template <class AnyOptions>
bool waits_at_once(const AnyOptions& options) {
  if constexpr (requires { options.asyncOp; }) return !options.asyncOp;
  return false;
}

// Above the tags that users give.
constexpr std::uint64_t kMonitoredTag = std::uint64_t{1} << 32;

std::uint64_t message_tag(int tag) {
  return static_cast<std::uint32_t>(tag);
}

}  // namespace

TuttiBackend::TuttiBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           std::chrono::milliseconds timeout)
    : BackendBase(rank, size), timeout_(timeout), group_([&] {
        StoreMeeting meeting(std::move(store), rank, size);
        return std::make_shared<Group>(connect(meeting, options_from_environment(timeout)));
      }()) {}

void TuttiBackend::close() {
  queue_->close([this] { group_->cancel(); });
  group_->messages().close();
}

template <class AnyOptions>
WorkPtr TuttiBackend::submit(Subject subject, Job job, const AnyOptions& options) {
  ++submitted_;
  const auto work = c10::make_intrusive<QueuedWork>(rank_, std::move(subject), std::move(job), queue_);
  const bool limited = options.timeout != c10d::kUnsetTimeout;
  if (limited) work->limit(options.timeout);
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
  const auto op = reduce_op(options.reduceOp);
  for (const at::Tensor& tensor : tensors) require_dense_on_cpu(tensor);
  if (tensors.empty()) throw ConfigError("backend tutti: no tensors to reduce");
  return submit({c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", tensors, tensors},
                {.run = [group = group_.get(), tensors, op] { all_reduce_coalesced(*group, tensors, op); }},
                options);
}

WorkPtr TuttiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
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
  std::vector<Tensors> parts = {equal_parts(output, size_)};
  Tensors inputs = {input};
  return allgather(parts, inputs, options);
}

WorkPtr TuttiBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
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
  std::vector<Tensors> by_rank(static_cast<std::size_t>(size_));
  for (const at::Tensor& output : outputs) {
    const Tensors parts = equal_parts(output, size_);
    for (std::size_t r = 0; r < parts.size(); ++r) by_rank[r].push_back(parts[r]);
  }
  return allgather_coalesced(by_rank, inputs, options);
}

WorkPtr TuttiBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                             const c10d::GatherOptions& options) {
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
  Tensors outputs = {output};
  std::vector<Tensors> parts = {equal_parts(input.contiguous(), size_)};
  return reduce_scatter(outputs, parts, options);
}

WorkPtr TuttiBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
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
  Job job{.run = [=] { group->barrier(); }};
  if (group->is_small(0)) {
    job.begin = [=] { group->shared().publish(announcement(Shared::barrier, 0)); };
    job.finish = [=] { group->shared().await_all({"barrier"}); };
  }
  return submit({c10d::OpType::BARRIER, "tutti:barrier", {}, {}}, std::move(job), options);
}

WorkPtr TuttiBackend::send_message(const at::Tensor& tensor, Rank to, std::uint64_t tag) {
  const at::Tensor flat = tensor.contiguous();
  const auto work =
      c10::make_intrusive<MessageWork>(rank_, Subject{c10d::OpType::SEND, "tutti:send", {tensor}, {tensor}});
  work->limit(timeout_);
  group_->messages().send(to, tag, bytes_of(flat),
                          [work, flat](const Mailbox::Outcome& outcome) { work->complete(outcome.failure); });
  return work;
}

WorkPtr TuttiBackend::send(Tensors& tensors, int to, int tag) {
  require_root(to, size_);
  return send_message(only_dense(tensors), Rank{to}, message_tag(tag));
}

WorkPtr TuttiBackend::receive(const at::Tensor& tensor, std::optional<Rank> from, std::uint64_t tag,
                              const char* title, c10d::OpType type) {
  const at::Tensor flat = tensor.contiguous();
  const auto work = c10::make_intrusive<MessageWork>(rank_, Subject{type, title, {tensor}, {tensor}});
  work->limit(timeout_);
  const auto done = [work, flat, tensor](const Mailbox::Outcome& outcome) {
    if (!outcome.failure && flat.data_ptr() != tensor.data_ptr()) {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      tensor.copy_(flat);
    }
    work->complete(outcome.failure, to_int(outcome.peer));
  };
  const auto number = group_->messages().receive(from, tag, bytes_of(flat), done);
  work->on_give_up([group = group_, number] { group->messages().withdraw(number); });
  return work;
}

WorkPtr TuttiBackend::recv(Tensors& tensors, int from, int tag) {
  require_root(from, size_);
  return receive(only_dense(tensors), Rank{from}, message_tag(tag), "tutti:recv", c10d::OpType::RECV);
}

WorkPtr TuttiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(only_dense(tensors), std::nullopt, message_tag(tag), "tutti:recvAnySource",
                 c10d::OpType::RECVANYSOURCE);
}

// Everybody reports to rank 0, which answers once all have come, or once it has given up.
void TuttiBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
  const std::uint64_t tag = kMonitoredTag + monitored_++;
  if (rank_ == 0) {
    gather_at_first(tag, timeout, wait_all_ranks);
  } else {
    report_to_first(tag, timeout);
  }
}

void TuttiBackend::gather_at_first(std::uint64_t tag, std::chrono::milliseconds timeout,
                                   bool wait_all_ranks) {
  const auto deadline = Deadline::in(timeout);
  if (timeout <= std::chrono::milliseconds(0) && size_ > 1)
    throw RunError(
        fmt::format("[Rank 0]: Rank 0 timed out in monitoredBarrier after {} ms.", timeout.count()));
  std::vector<WorkPtr> reports;
  for (int r = 1; r < size_; ++r) {
    reports.push_back(
        receive(at::empty({1}, at::kByte), Rank{r}, tag, "tutti:monitored_barrier", c10d::OpType::BARRIER));
  }
  std::vector<int> came;
  std::vector<std::string> missing;
  for (int r = 1; r < size_; ++r) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    try {
      reports[static_cast<std::size_t>(r - 1)]->wait(std::max(left, std::chrono::milliseconds(1)));
      came.push_back(r);
    } catch (const std::exception&) {
      missing.push_back(std::to_string(r));
      if (!wait_all_ranks) break;
    }
  }
  const at::Tensor verdict = at::full({1}, missing.empty() ? 1 : 0, at::kByte);
  std::vector<WorkPtr> verdicts;
  for (const int r : came) verdicts.push_back(send_message(verdict, Rank{r}, tag));
  // Who destroys the group next would end what has not left yet.
  for (const WorkPtr& sent : verdicts) {
    try {
      sent->wait(timeout);
    } catch (const std::exception&) {
      // Whoever is gone by now needs no verdict.
    }
  }
  if (missing.empty()) return;
  throw RunError(fmt::format("[Rank 0]: Rank{} {} failed to pass monitoredBarrier in {} ms",
                             wait_all_ranks ? "s" : "", fmt::join(missing, ", "), timeout.count()));
}

void TuttiBackend::report_to_first(std::uint64_t tag, std::chrono::milliseconds timeout) {
  send_message(at::zeros({1}, at::kByte), Rank{0}, tag);
  const at::Tensor answer = at::zeros({1}, at::kByte);
  std::string why = "it has given up";
  try {
    // Rank 0 may have begun to wait later than this one.
    receive(answer, Rank{0}, tag, "tutti:monitored_barrier", c10d::OpType::BARRIER)->wait(2 * timeout);
    if (*answer.data_ptr<std::uint8_t>() == 1) return;
  } catch (const std::exception& e) {
    why = e.what();
  }
  throw RunError(
      fmt::format("[Rank {0}]: Rank {0} successfully reached monitoredBarrier, but received errors while "
                  "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank: {1}",
                  rank_, why));
}

}  // namespace tutti::torch_backend
