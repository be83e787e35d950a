#include "grad/after_accumulation.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace tutti::grad {
namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> hook) : hook_(std::move(hook)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    hook_();
    return outputs;
  }

 private:
  std::function<void()> hook_;
};

}  // namespace

std::shared_ptr<torch::autograd::Node> call_after_accumulation(const torch::Tensor& parameter,
                                                               std::function<void()> hook) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  accumulator->add_post_hook(std::make_unique<AfterAccumulation>(std::move(hook)));
  return accumulator;
}

}  // namespace tutti::grad
