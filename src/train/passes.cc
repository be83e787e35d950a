#include "train/passes.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "train/open_data.h"
#include "train/plan.h"
#include "train/precision.h"
#include "train/scoped_seed.h"

namespace tutti::train {

using observe::Lane;

Passes::Passes(PassesSetup setup) : setup_(std::move(setup)) {}

models::Batch Passes::tensors_of(const data::Batch& batch) const {
  return as_tensors(batch.fields, setup_.fields, batch.count, channels_last(setup_.config));
}

double Passes::run(const data::Batch& batch, const std::function<void(std::size_t)>& begin_phase,
                   const std::function<void(std::size_t, double)>& on_loss) {
  const models::Batch whole = tensors_of(batch);
  forwards_ = 0;
  double sum = 0;
  for (std::size_t p = 0; p < setup_.phases.size(); ++p) {
    begin_phase(p);
    sum += in_micro_batches(setup_.phases[p], whole, batch, [&](double loss) { on_loss(p, loss); });
  }
  return sum;
}

// One after the other. Their gradients add up where they lie; they are final in the last one.
double Passes::in_micro_batches(const models::Phase& phase, const models::Batch& whole,
                                const data::Batch& batch, const OnLoss& on_loss) {
  const auto count = static_cast<std::int64_t>(batch.count);
  double loss = 0;
  for (std::int64_t first = 0; first < count; first += setup_.micro_batch) {
    const std::int64_t n = std::min(setup_.micro_batch, count - first);
    models::Batch part;
    for (const auto& field : whole) part.push_back(field.narrow(0, first, n));
    accumulating_ = first + n < count;
    try {
      loss += forward_and_backward(phase, part, batch, on_loss) * static_cast<double>(n) /
              static_cast<double>(count);
    } catch (const c10::Error& e) {
      refuse_without_kernel(e, setup_.config.model);
      throw;
    }
  }
  return loss;
}

// What it draws follows from the step, so that a resumed run draws what the undisturbed one drew.
torch::Tensor Passes::forward(const models::Phase& phase, const models::Batch& part, std::uint64_t step) {
  const auto& config = setup_.config;
  const auto seed =
      mix_seed({config.seed, step, static_cast<std::uint64_t>(to_int(setup_.rank))}) + forwards_++;
  std::optional<ScopedSeed> seeded;
  if (config.sync_batchnorm) {
    torch::manual_seed(seed);  // workers wait for each other inside
  } else {
    seeded.emplace(seed);
  }
  const Autocast autocast(config.precision == "bf16");
  return phase.loss(part);
}

double Passes::forward_and_backward(const models::Phase& phase, const models::Batch& part,
                                    const data::Batch& batch, const OnLoss& on_loss) {
  const auto begin = Clock::now();
  const torch::Tensor loss = forward(phase, part, batch.step);
  const auto forward_done = Clock::now();
  setup_.trace.add(Lane::compute, "forward", begin, forward_done);
  const auto value = loss.item<double>();
  on_loss(value);
  // The mean of the ranks' gradients shall be the gradient of the mean over all samples, also where the last
  // batch of an epoch is not shared evenly.
  const double weight =
      static_cast<double>(part.front().size(0)) * setup_.workers / static_cast<double>(batch.global_count);
  (weight == 1.0 ? loss : loss * weight).backward();
  setup_.trace.add(Lane::compute, "backward", forward_done, Clock::now());
  return value;
}

}  // namespace tutti::train
