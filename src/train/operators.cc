#include "train/operators.h"

#include <ATen/record_function.h>

#include "base/error.h"

namespace tutti::train {
namespace {

// libtorch calls a plain function, without a word about whose it is.
struct Owner {
  const net::StatusBoard* board = nullptr;
  Rank self{};
};
thread_local Owner owner;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& /*operator*/) {
  // Where libtorch hands work to a thread of its own, it takes the callback along.
  if (owner.board != nullptr) owner.board->advance(owner.self);
  return nullptr;
}

}  // namespace

OperatorProgress::OperatorProgress(const net::StatusBoard& board, Rank self, Clock::duration timeout)
    : timeout_(timeout) {
  TUTTI_CHECK(owner.board == nullptr, "two ranks compute on one thread");
  owner = {&board, self};
  listen();
}

OperatorProgress::~OperatorProgress() {
  stop_listening();
  owner = {};
}

void OperatorProgress::listen() {
  if (callback_) return;
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&note).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void OperatorProgress::stop_listening() {
  if (callback_) at::removeCallback(*callback_);
  callback_.reset();
}

void OperatorProgress::after_pass(Clock::duration took) {
  took* kOftenEnough < timeout_ ? stop_listening() : listen();
}

}  // namespace tutti::train
