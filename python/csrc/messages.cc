// Messages between two ranks, and the barrier that stands on them.
#include <fmt/ranges.h>

#include <algorithm>

#include "arguments.h"
#include "backend.h"
#include "base/error.h"
#include "host_copies.h"

namespace tutti::torch_backend {
namespace {

// Above the tags that users give.
constexpr std::uint64_t kMonitoredTag = std::uint64_t{1} << 32;

std::uint64_t message_tag(int tag) {
  return static_cast<std::uint32_t>(tag);
}

}  // namespace

WorkPtr TuttiBackend::send_message(const at::Tensor& tensor, Rank to, std::uint64_t tag) {
  const at::Tensor flat = tensor.contiguous();
  const auto work =
      c10::make_intrusive<MessageWork>(rank_, Subject{c10d::OpType::SEND, "tutti:send", {tensor}, {tensor}});
  work->limit(timeout_);
  group_->messages().send(to, tag, bytes_of(flat), [work, flat](const Mailbox::Delivery& delivery) {
    work->complete(delivery.failure);
  });
  return work;
}

WorkPtr TuttiBackend::send(Tensors& tensors, int to, int tag) {
  require_root(to, size_);
  if (HostCopies::needed(tensors)) {
    Tensors copies = HostCopies().inputs(tensors);
    return send(copies, to, tag);
  }
  return send_message(only_dense(tensors), Rank{to}, message_tag(tag));
}

WorkPtr TuttiBackend::receive(const at::Tensor& tensor, std::optional<Rank> from, std::uint64_t tag,
                              const char* title, c10d::OpType type) {
  const at::Tensor flat = tensor.contiguous();
  const auto work = c10::make_intrusive<MessageWork>(rank_, Subject{type, title, {tensor}, {tensor}});
  work->limit(timeout_);
  const auto done = [work, flat, tensor](const Mailbox::Delivery& delivery) {
    if (!delivery.failure && flat.data_ptr() != tensor.data_ptr()) {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      tensor.copy_(flat);
    }
    work->complete(delivery.failure, to_int(delivery.peer));
  };
  const auto number = group_->messages().receive(from, tag, bytes_of(flat), done);
  work->on_give_up([group = group_, number] { group->messages().withdraw(number); });
  return work;
}

WorkPtr TuttiBackend::recv(Tensors& tensors, int from, int tag) {
  if (HostCopies::needed(tensors)) {
    HostCopies host;
    Tensors room = host.outputs(tensors);
    return host.copy_back_after(recv(room, from, tag));
  }
  require_root(from, size_);
  return receive(only_dense(tensors), Rank{from}, message_tag(tag), "tutti:recv", c10d::OpType::RECV);
}

WorkPtr TuttiBackend::recvAnysource(Tensors& tensors, int tag) {
  if (size_ == 1) throw ConfigError("backend tutti: there is nobody else to receive from");
  if (HostCopies::needed(tensors)) {
    HostCopies host;
    Tensors room = host.outputs(tensors);
    return host.copy_back_after(recvAnysource(room, tag));
  }
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
