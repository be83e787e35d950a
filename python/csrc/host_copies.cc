#include "host_copies.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace tutti::torch_backend {
namespace {

using Back = std::vector<std::pair<at::Tensor, at::Tensor>>;

void copy_back(const Back& back) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  for (const auto& [from, to] : back)
    to.copy_(from);  // from memory that is not pinned: returns when it is there
}

// The inner work is done by whoever does works; its future then copies.
class CopiedBackWork final : public c10d::Work {
 public:
  CopiedBackWork(WorkPtr work, Back back) : work_(std::move(work)) {
    for (const auto& [from, to] : back) outputs_.push_back(to);
    future_ = work_->getFuture()->then(
        [back = std::move(back), outputs = outputs_](c10::ivalue::Future& done) {
          if (done.hasError()) std::rethrow_exception(done.exception_ptr());
          copy_back(back);
          return c10::IValue(outputs);
        },
        c10::ListType::create(c10::TensorType::get()));
  }

  Tensors result() override { return outputs_; }
  int sourceRank() const override { return work_->sourceRank(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    work_->getFuture();  // which tells it that somebody waits
    return future_;
  }
  bool isCompleted() override { return work_->isCompleted() && future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  bool wait(std::chrono::milliseconds timeout) override {
    work_->wait(timeout);  // whose limit it is; copying takes no peer
    future_->waitAndThrow();
    return true;
  }

 private:
  const WorkPtr work_;
  Tensors outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

bool HostCopies::needed(const Tensors& tensors) {
  return std::ranges::any_of(tensors, [](const at::Tensor& t) { return t.defined() && t.is_cuda(); });
}

Tensors HostCopies::inputs(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().cpu());
  return copies;
}

Tensors HostCopies::outputs(const Tensors& tensors) {
  Tensors room;
  for (const at::Tensor& tensor : tensors) {
    room.push_back(at::empty(tensor.sizes(), tensor.options().device(at::kCPU)));
    back_.emplace_back(room.back(), tensor);
    // Kernels that still use it come first: copying back happens on another stream.
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    device.getStream(tensor.device()).synchronize();
  }
  return room;
}

Tensors HostCopies::changed(const Tensors& tensors) {
  Tensors copies = inputs(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) back_.emplace_back(copies[i], tensors[i]);
  return copies;
}

WorkPtr HostCopies::copy_back_after(const WorkPtr& work) {
  return c10::make_intrusive<CopiedBackWork>(work, std::move(back_));
}

}  // namespace tutti::torch_backend
