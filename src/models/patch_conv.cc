#include "models/patch_conv.h"

namespace tutti::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// n, c, h, w with channels last as n, h, w, c row-major; both ways a view where the strides are right
// already.
Tensor rows_of(const Tensor& x) {
  return x.contiguous(torch::MemoryFormat::ChannelsLast).permute({0, 2, 3, 1});
}

struct Shape {
  std::int64_t images, height, width, channels, filters, kernel;
  Shape(const Tensor& input, const Tensor& weight)
      : images(input.size(0)),
        height(input.size(2) - weight.size(2) + 1),
        width(input.size(3) - weight.size(3) + 1),
        channels(input.size(1)),
        filters(weight.size(0)),
        kernel(weight.size(2)) {}
  std::int64_t positions() const { return images * height * width; }
  std::int64_t patch() const { return kernel * kernel * channels; }
};

// positions x patch.
Tensor patches_of(const Tensor& input, const Shape& s) {
  const Tensor rows = rows_of(input);
  const std::int64_t line = rows.size(2) * s.channels;
  return rows
      .as_strided({s.images, s.height, s.width, s.kernel, s.kernel * s.channels},
                  {rows.size(1) * line, line, s.channels, line, 1}, rows.storage_offset())
      .reshape({s.positions(), s.patch()});
}

Tensor matrix_of(const Tensor& weight, const Shape& s) {
  return rows_of(weight).reshape({s.filters, s.patch()});
}

// The transpose of patches_of: every patch is added back to where it was taken.
Tensor scatter_patches(const Tensor& patches, const Tensor& like, const Shape& s) {
  Tensor rows = torch::zeros({s.images, like.size(2), like.size(3), s.channels});
  const Tensor by_offset = patches.view({s.images, s.height, s.width, s.kernel, s.kernel, s.channels});
  for (std::int64_t y = 0; y < s.kernel; ++y) {
    for (std::int64_t x = 0; x < s.kernel; ++x) {
      rows.slice(1, y, y + s.height).slice(2, x, x + s.width).add_(by_offset.select(3, y).select(3, x));
    }
  }
  return rows.permute({0, 3, 1, 2});
}

class PatchConv : public torch::autograd::Function<PatchConv> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const Tensor& bias) {
    const Shape s(input, weight);
    const Tensor patches = patches_of(input, s);
    context->save_for_backward({input, weight, patches});
    const Tensor out = torch::addmm(bias, patches, matrix_of(weight, s).t());
    return out.view({s.images, s.height, s.width, s.filters}).permute({0, 3, 1, 2});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    const Tensor& weight = saved[1];
    const Shape s(input, weight);
    const Tensor out = rows_of(gradients[0]).reshape({s.positions(), s.filters});
    const auto type = out.scalar_type();  // under autocast not that of weight and patches
    Tensor to_input;
    if (context->needs_input_grad(0)) {
      to_input = scatter_patches(out.mm(matrix_of(weight, s).to(type)), input, s);
    }
    const Tensor to_weight = out.t().mm(saved[2].to(type)).view({s.filters, s.kernel, s.kernel, s.channels});
    return {to_input, to_weight.permute({0, 3, 1, 2}), out.sum(0)};
  }
};

}  // namespace

Tensor patch_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const bool channels_last = input.is_contiguous(torch::MemoryFormat::ChannelsLast) && !input.is_contiguous();
  return channels_last ? PatchConv::apply(input, weight, bias) : torch::conv2d(input, weight, bias);
}

}  // namespace tutti::models
