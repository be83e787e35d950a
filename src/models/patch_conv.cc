#include "models/patch_conv.h"

#include "base/simd.h"

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

struct PatchShape {
  std::int64_t images, height, width, channels, filters, kernel;
  PatchShape(const Tensor& input, const Tensor& weight)
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
Tensor patches_of(const Tensor& input, const PatchShape& s) {
  const Tensor rows = rows_of(input);
  const std::int64_t line = rows.size(2) * s.channels;
  return rows
      .as_strided({s.images, s.height, s.width, s.kernel, s.kernel * s.channels},
                  {rows.size(1) * line, line, s.channels, line, 1}, rows.storage_offset())
      .reshape({s.positions(), s.patch()});
}

Tensor matrix_of(const Tensor& weight, const PatchShape& s) {
  return rows_of(weight).reshape({s.filters, s.patch()});
}

// Adds every patch back to where it was taken, run by run.
TUTTI_SIMD_CLONES void add_patches(const float* patch, float* image, const PatchShape& s) {
  const std::int64_t run = s.kernel * s.channels;
  const std::int64_t line = (s.width + s.kernel - 1) * s.channels;
  for (std::int64_t n = 0; n < s.images; ++n, image += (s.height + s.kernel - 1) * line) {
    for (std::int64_t y = 0; y < s.height; ++y) {
      for (std::int64_t x = 0; x < s.width; ++x) {
        for (std::int64_t k = 0; k < s.kernel; ++k, patch += run) {
          float* to = image + (y + k) * line + x * s.channels;
          for (std::int64_t i = 0; i < run; ++i) to[i] += patch[i];
        }
      }
    }
  }
}

// The transpose of patches_of.
Tensor scatter_patches(const Tensor& patches, const PatchShape& s) {
  const Tensor rows = torch::zeros({s.images, s.height + s.kernel - 1, s.width + s.kernel - 1, s.channels});
  add_patches(patches.data_ptr<float>(), rows.data_ptr<float>(), s);
  return rows.permute({0, 3, 1, 2});
}

// On wider images direct kernels gain on the product, which copies nine times the image; with AVX-512 they
// overtake it.
bool is_worth_it(const Tensor& input) {
  constexpr std::int64_t kNarrow = 8;
  static const bool wide_vectors = __builtin_cpu_supports("avx512f") != 0;
  return !wide_vectors || input.size(3) <= kNarrow;
}

class PatchConv : public torch::autograd::Function<PatchConv> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const Tensor& bias) {
    const PatchShape s(input, weight);
    const Tensor patches = patches_of(input, s);
    context->save_for_backward({input, weight, patches});
    const Tensor out = torch::addmm(bias, patches, matrix_of(weight, s).t());
    return out.view({s.images, s.height, s.width, s.filters}).permute({0, 3, 1, 2});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    const Tensor& weight = saved[1];
    const PatchShape s(input, weight);
    const Tensor out = rows_of(gradients[0]).reshape({s.positions(), s.filters});
    const auto type = out.scalar_type();  // under autocast not that of weight and patches
    Tensor to_input;
    if (context->needs_input_grad(0)) {
      to_input = scatter_patches(out.mm(matrix_of(weight, s).to(type)).to(torch::kFloat32), s);
    }
    const Tensor to_weight = out.t().mm(saved[2].to(type)).view({s.filters, s.kernel, s.kernel, s.channels});
    return {to_input, to_weight.permute({0, 3, 1, 2}), out.sum(0)};
  }
};

}  // namespace

Tensor patch_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const bool channels_last = input.is_contiguous(torch::MemoryFormat::ChannelsLast) && !input.is_contiguous();
  return channels_last && is_worth_it(input) ? PatchConv::apply(input, weight, bias)
                                             : torch::conv2d(input, weight, bias);
}

}  // namespace tutti::models
