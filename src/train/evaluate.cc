#include "train/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/aligned_buffer.h"
#include "data/sampler.h"
#include "train/open_data.h"

namespace tutti::train {
namespace {

constexpr std::size_t kEvaluationBatch = 250;

}  // namespace

Evaluation evaluate(models::Model& model, const models::Measures& measures, bool channels_last,
                    const data::Samples& samples, collectives::Collectives* all,
                    const std::function<void(std::size_t batch, std::size_t batches)>& on_batch) {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto part =
      data::share_of(samples.size(), static_cast<std::size_t>(all != nullptr ? all->world() : 1),
                     static_cast<std::size_t>(all != nullptr ? to_int(all->rank()) : 0));
  std::vector<data::AlignedBuffer<std::byte>> buffers;
  for (const Field& f : samples.fields()) buffers.emplace_back(kEvaluationBatch * f.bytes());
  std::vector<double> sums(2 + measures.counts);  // loss, samples, counts
  for (std::size_t done = 0; done < part.count; done += kEvaluationBatch) {
    const std::size_t n = std::min(kEvaluationBatch, part.count - done);
    on_batch(done / kEvaluationBatch + 1, (part.count + kEvaluationBatch - 1) / kEvaluationBatch);
    std::vector<std::uint32_t> indices(n);
    std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(part.first + done));
    std::vector<std::span<std::byte>> into;
    for (const auto& b : buffers) into.push_back(b.span());
    samples.decode(indices, into);
    const std::vector<std::span<const std::byte>> fields(into.begin(), into.end());
    const auto score = model.score(as_tensors(fields, samples.fields(), n, channels_last));
    TUTTI_CHECK(score.counts.size() == measures.counts, "{} counts", score.counts.size());
    sums[0] += score.loss;
    sums[1] += score.samples;
    for (std::size_t i = 0; i < measures.counts; ++i) sums[2 + i] += score.counts[i];
  }
  model.train();
  if (all != nullptr) {
    all->all_reduce({sums.data(), sums.size(), DType::f64}, collectives::ReduceOp::sum, "evaluation");
  }
  const models::Score total{.loss = sums[0], .samples = sums[1], .counts = {sums.begin() + 2, sums.end()}};
  Evaluation evaluation{.figures = {}, .samples = static_cast<std::int64_t>(total.samples)};
  for (const models::Figure& f : measures.figures) evaluation.figures[std::string(f.name)] = f.of(total);
  return evaluation;
}

}  // namespace tutti::train
