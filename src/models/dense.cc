#include "models/dense.h"

namespace tutti::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Product : public torch::autograd::Function<Product> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    context->save_for_backward({x});
    context->saved_data["weight"] = weight;  // itself, with its gradient
    return torch::addmm(bias, x, weight.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor x = context->get_saved_variables()[0];
    Tensor weight = context->saved_data["weight"].toTensor();
    const Tensor& out = gradients[0];
    const auto type = out.scalar_type();  // under autocast not that of weight
    Tensor to_x;
    Tensor to_weight;
    if (context->needs_input_grad(0)) to_x = out.mm(weight.detach().to(type)).to(x.scalar_type());
    if (context->needs_input_grad(1)) {
      Tensor& kept = weight.mutable_grad();
      if (kept.defined() && kept.scalar_type() == type) {
        kept.addmm_(out.t(), x.to(type));
      } else {
        to_weight = out.t().mm(x.to(type)).to(weight.scalar_type());
      }
    }
    return {to_x, to_weight, out.sum(0)};
  }
};

}  // namespace

Tensor DenseImpl::forward(const Tensor& x) {
  return Product::apply(x, weight, bias);
}

}  // namespace tutti::models
