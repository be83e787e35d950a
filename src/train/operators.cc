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

OperatorProgress::OperatorProgress(const net::StatusBoard& board, Rank self) {
  TUTTI_CHECK(owner.board == nullptr, "two ranks compute on one thread");
  owner = {&board, self};
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&note).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperatorProgress::~OperatorProgress() {
  at::removeCallback(callback_);
  owner = {};
}

}  // namespace tutti::train
