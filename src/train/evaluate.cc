#include "train/evaluate.h"

#include <algorithm>
#include <numeric>

#include "data/aligned_buffer.h"
#include "data/sampler.h"
#include "train/open_data.h"

namespace tutti::train {
namespace {

constexpr std::size_t kEvaluationBatch = 250;

}  // namespace

Evaluation evaluate(models::Model& model, bool channels_last, const data::Samples& samples,
                    collectives::Communicator* all) {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto part =
      data::share_of(samples.size(), static_cast<std::size_t>(all != nullptr ? all->world() : 1),
                     static_cast<std::size_t>(all != nullptr ? to_int(all->rank()) : 0));
  std::vector<data::AlignedBuffer<std::byte>> buffers;
  for (const Field& f : samples.fields()) buffers.emplace_back(kEvaluationBatch * f.bytes());
  double sums[3] = {0, 0, 0};  // loss, correct, samples
  for (std::size_t done = 0; done < part.count; done += kEvaluationBatch) {
    const std::size_t n = std::min(kEvaluationBatch, part.count - done);
    std::vector<std::uint32_t> indices(n);
    std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(part.first + done));
    std::vector<std::span<std::byte>> into;
    for (const auto& b : buffers) into.push_back(b.span());
    samples.decode(indices, into);
    const std::vector<std::span<const std::byte>> fields(into.begin(), into.end());
    const auto score = model.score(as_tensors(fields, samples.fields(), n, channels_last));
    sums[0] += score.loss;
    sums[1] += score.correct;
    sums[2] += score.samples;
  }
  model.train();
  if (all != nullptr) all->all_reduce({sums, 3, DType::f64}, collectives::ReduceOp::sum, "evaluation");
  return {sums[0] / sums[2], sums[1] / sums[2], static_cast<std::int64_t>(sums[2])};
}

}  // namespace tutti::train
