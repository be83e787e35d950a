#include "grad/after_accumulation.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"

namespace tutti::grad {
namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::shared_ptr<const std::function<void()>> hook) : hook_(std::move(hook)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    if (*hook_) (*hook_)();
    return outputs;
  }

 private:
  std::shared_ptr<const std::function<void()>> hook_;  // empty once nobody listens
};

}  // namespace

AccumulationHook::AccumulationHook(const torch::Tensor& parameter, std::function<void()> hook)
    : accumulator_(torch::autograd::impl::grad_accumulator(parameter)),
      hook_(std::make_shared<std::function<void()>>(std::move(hook))) {
  TUTTI_CHECK(accumulator_ != nullptr, "a parameter without gradients");
  accumulator_->add_post_hook(std::make_unique<AfterAccumulation>(hook_));
}

AccumulationHook::~AccumulationHook() {
  if (hook_) *hook_ = nullptr;
}

}  // namespace tutti::grad
