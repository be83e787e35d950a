#include "tutti/session.h"

#include <atomic>

#include "base/error.h"
#include "base/process.h"
#include "config/environment.h"
#include "config/flags.h"
#include "joining/meet.h"
#include "library/member.h"

namespace tutti {

Session::Session(std::unique_ptr<library::Member> member) : member_(std::move(member)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session Session::join() {
  static std::atomic<bool> joined = false;
  if (!config::has_malloc_settings()) keep_freed_memory();
  const auto settings = config::join_settings();
  const auto placement = config::placement(settings);
  if (!placement || (!placement->job_descriptor && placement->size == 1))
    return Session(library::Member::alone());
  // Descriptors are closed by then, or somebody else's, and the others have come and gone.
  if (joined.exchange(true)) throw ConfigError("this process has joined its job already");
  if (placement->job_descriptor) return Session(library::Member::of_job(*placement->job_descriptor));
  // Of how many there are, rank 0 speaks for all; of a rank, only the one that has it.
  if (!placement->conflict.empty() && (placement->rank == 0 || placement->ranks_conflict))
    TORCH_WARN("tutti: ", placement->conflict);
  return Session(
      library::Member::of_meeting(joining::meet(*placement, settings, config::private_folder()), settings));
}

int Session::rank() const {
  return member_->rank();
}
int Session::size() const {
  return member_->size();
}
int Session::local_rank() const {
  return member_->local_rank();
}
int Session::local_size() const {
  return member_->local_size();
}

void Session::barrier() {
  member_->tell_failure_of([&] { member_->all().barrier("barrier"); });
}

void Session::all_reduce(torch::Tensor& tensor, ReduceOp op) {
  member_->tell_failure_of([&] { member_->tensors().all_reduce(tensor, op, "all_reduce"); });
}

torch::Tensor Session::all_gather(const torch::Tensor& tensor) {
  return member_->tell_failure_of([&] { return member_->tensors().all_gather(tensor, "all_gather"); });
}

std::vector<std::string> Session::all_gather(const std::string& text) {
  return member_->tell_failure_of([&] { return gather_text(member_->all(), text, "all_gather"); });
}

void Session::broadcast(torch::Tensor& tensor, int root) {
  member_->tell_failure_of([&] { member_->tensors().broadcast(tensor, root, "broadcast"); });
}

void Session::broadcast(std::string& text, int root) {
  member_->tell_failure_of([&] {
    auto length = static_cast<std::int64_t>(text.size());
    member_->tensors().broadcast(std::as_writable_bytes(std::span(&length, 1)), root, "broadcast");
    text.resize(static_cast<std::size_t>(length));
    member_->tensors().broadcast(std::as_writable_bytes(std::span(text)), root, "broadcast");
  });
}

Session Session::group(const std::vector<int>& ranks) {
  return Session(member_->tell_failure_of([&] { return member_->group(ranks); }));
}

}  // namespace tutti
