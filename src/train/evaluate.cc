#include "train/evaluate.h"

#include <algorithm>

#include "data/sampler.h"

namespace tutti::train {
namespace {

constexpr std::size_t kEvaluationBatch = 250;

}  // namespace

torch::Tensor as_images(const float* pixels, std::int64_t count, const models::ModelInfo& info,
                        bool channels_last) {
  const std::int64_t plane = info.height * info.width;
  // With one channel both orders are the same bytes; strides alone tell libtorch which kernels to take.
  const std::int64_t channel_stride = channels_last && info.channels == 1 ? 1 : plane;
  return torch::from_blob(const_cast<float*>(pixels), {count, info.channels, info.height, info.width},
                          {info.channels * plane, channel_stride, info.width, 1}, torch::kFloat32);
}

Evaluation evaluate(models::Model& model, const models::ModelInfo& info, bool channels_last,
                    const data::ImageSet& set, const data::PixelTable& table,
                    collectives::Communicator* all) {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto part = data::share_of(set.size(), static_cast<std::size_t>(all != nullptr ? all->world() : 1),
                                   static_cast<std::size_t>(all != nullptr ? to_int(all->rank()) : 0));
  std::vector<float> pixels(kEvaluationBatch * set.pixels_per_image());
  std::vector<std::int64_t> labels(kEvaluationBatch);
  double sums[3] = {0, 0, 0};  // loss, correct, samples
  for (std::size_t done = 0; done < part.count; done += kEvaluationBatch) {
    const std::size_t n = std::min(kEvaluationBatch, part.count - done);
    data::decode_range(set, part.first + done, n, table, pixels, labels);
    const auto count = static_cast<std::int64_t>(n);
    const auto target = torch::from_blob(labels.data(), {count}, torch::kInt64);
    const auto scores = model.forward(as_images(pixels.data(), count, info, channels_last));
    sums[0] += torch::nn::functional::cross_entropy(
                   scores, target, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                   .item<double>();
    sums[1] += scores.argmax(1).eq(target).sum().item<double>();
    sums[2] += static_cast<double>(n);
  }
  model.train();
  if (all != nullptr) all->all_reduce({sums, 3, DType::f64}, collectives::ReduceOp::sum, "evaluation");
  return {sums[0] / sums[2], sums[1] / sums[2], static_cast<std::int64_t>(sums[2])};
}

}  // namespace tutti::train
