#include "train/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/aligned_buffer.h"
#include "data/sampler.h"
#include "train/as_tensors.h"
#include "train/open_data.h"

namespace tutti::train {
namespace {

// Not the run's batch: figures, which are sums over these batches, do not depend on it then.
constexpr std::size_t kEvaluationBatch = 250;

// What of the samples this rank computes: so many parts, from one on.
struct Parts {
  std::size_t all = 1;
  std::size_t first = 0;
  std::size_t count = 1;
};

Parts parts_of(collectives::Collectives* all, int shards) {
  const int rank = all != nullptr ? to_int(all->rank()) : 0;
  const int world = all != nullptr ? all->world() : 1;
  const auto size = [](int n) { return static_cast<std::size_t>(n); };
  if (shards == 0) return {size(world), size(rank), 1};
  const ShardRun run = ShardTree(shards).run_of(rank, world);
  return {size(shards), size(run.first), size(run.count())};
}

std::size_t batches_of(const data::Share& share) {
  return (share.count + kEvaluationBatch - 1) / kEvaluationBatch;
}

}  // namespace

Evaluation evaluate(models::Model& model, const EvaluationSetup& setup, collectives::Collectives* all,
                    const std::function<void(std::size_t batch, std::size_t batches)>& on_batch) {
  const auto& [measures, channels_last, samples, shards] = setup;
  const torch::NoGradGuard no_grad;
  model.eval();
  const Parts parts = parts_of(all, shards);
  const auto share = [&](std::size_t i) {
    return data::share_of(samples.size(), parts.all, parts.first + i);
  };
  std::size_t batches = 0;
  for (std::size_t i = 0; i < parts.count; ++i) batches += batches_of(share(i));
  std::vector<data::AlignedBuffer<std::byte>> buffers;
  for (const Field& f : samples.fields()) buffers.emplace_back(kEvaluationBatch * f.bytes());
  // A row of sums: loss, samples, counts. With shards one for each of them, on every rank: who has not
  // computed it adds zeros, which change nothing, and all add up the rows in their order.
  const std::size_t width = 2 + measures.counts;
  std::vector<double> sums(width * (shards > 0 ? parts.all : 1));
  std::size_t batch = 0;
  for (std::size_t i = 0; i < parts.count; ++i) {
    double* const row = sums.data() + (shards > 0 ? (parts.first + i) * width : 0);
    for (std::size_t done = 0; done < share(i).count; done += kEvaluationBatch) {
      const std::size_t n = std::min(kEvaluationBatch, share(i).count - done);
      on_batch(++batch, batches);
      std::vector<std::uint32_t> indices(n);
      std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(share(i).first + done));
      std::vector<std::span<std::byte>> into;
      for (const auto& b : buffers) into.push_back(b.span());
      samples.decode(indices, into);
      const std::vector<std::span<const std::byte>> fields(into.begin(), into.end());
      const auto score = model.score(as_tensors(fields, samples.fields(), n, channels_last));
      TUTTI_CHECK(score.counts.size() == measures.counts, "{} counts", score.counts.size());
      row[0] += score.loss;
      row[1] += score.samples;
      for (std::size_t c = 0; c < measures.counts; ++c) row[2 + c] += score.counts[c];
    }
  }
  model.train();
  if (all != nullptr) {
    all->all_reduce({sums.data(), sums.size(), DType::f64}, collectives::ReduceOp::sum, "evaluation");
  }
  for (std::size_t at = width; at < sums.size(); ++at) sums[at % width] += sums[at];
  const models::Score total{.loss = sums[0],
                            .samples = sums[1],
                            .counts = {sums.begin() + 2, sums.begin() + static_cast<std::ptrdiff_t>(width)}};
  Evaluation evaluation{.figures = {}, .samples = static_cast<std::int64_t>(total.samples)};
  for (const models::Figure& f : measures.figures) evaluation.figures[std::string(f.name)] = f.of(total);
  return evaluation;
}

}  // namespace tutti::train
