#include "train/passes.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "train/as_tensors.h"
#include "train/plan.h"
#include "train/precision.h"
#include "train/scoped_seed.h"

namespace tutti::train {

using observe::Lane;

Passes::Passes(PassesSetup setup) : setup_(std::move(setup)) {}

models::Batch Passes::tensors_of(const data::Batch& batch) const {
  return as_tensors(batch.fields, setup_.fields, batch.count, channels_last(setup_.config));
}

std::vector<Passes::Part> Passes::parts_of(const data::Batch& batch) {
  std::vector<Part> parts;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const auto count = static_cast<std::int64_t>(batch.parts[i]);
    parts.push_back({i, first, count, i + 1 == batch.parts.size()});
    first += count;
  }
  return parts;
}

std::vector<models::Batch> Passes::cut(const models::Batch& whole, const Part& part) const {
  std::vector<models::Batch> pieces;
  for (std::int64_t done = 0; done < part.count; done += setup_.micro_batch) {
    pieces.emplace_back();
    for (const auto& field : whole) {
      pieces.back().push_back(
          field.narrow(0, part.first + done, std::min(setup_.micro_batch, part.count - done)));
    }
  }
  return pieces;
}

std::vector<models::Batch> Passes::micro_batches(const data::Batch& batch) const {
  const models::Batch whole = tensors_of(batch);
  std::vector<models::Batch> all;
  for (const Part& part : parts_of(batch)) {
    for (models::Batch& piece : cut(whole, part)) all.push_back(std::move(piece));
  }
  return all;
}

double Passes::run(const data::Batch& batch, const PassesListener& listener) {
  const models::Batch whole = tensors_of(batch);
  const auto parts = parts_of(batch);
  forwards_.assign(parts.size(), 0);
  losses_.assign(parts.size(), 0);
  for (std::size_t p = 0; p < setup_.phases.size(); ++p) {
    listener.begin_phase(p);
    for (const Part& part : parts) {
      if (listener.begin_part) listener.begin_part(p);
      losses_[part.index] += in_micro_batches(setup_.phases[p], whole, batch, part,
                                              [&](double loss) { listener.on_loss(p, loss); });
      if (listener.end_part) listener.end_part(p, part.last);
    }
  }
  double sum = 0;
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    sum += losses_[part.index] * (static_cast<double>(part.count) / static_cast<double>(batch.count));
  }
  return sum;
}

// One after the other. Their gradients add up where they lie; they are final in the last one of the last
// part.
double Passes::in_micro_batches(const models::Phase& phase, const models::Batch& whole,
                                const data::Batch& batch, const Part& part, const OnLoss& on_loss) {
  double loss = 0;
  const auto pieces = cut(whole, part);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    accumulating_ = !part.last || i + 1 < pieces.size();
    const auto n = static_cast<double>(pieces[i].front().size(0));
    try {
      loss += forward_and_backward(phase, pieces[i], batch, part.index, on_loss) * n /
              static_cast<double>(part.count);
    } catch (const c10::Error& e) {
      refuse_without_kernel(e, setup_.config.model);
      throw;
    }
  }
  return loss;
}

// What it draws follows from the step and the part, so that a resumed run draws what the undisturbed one
// drew, and a shard the same whoever computes it.
torch::Tensor Passes::forward(const models::Phase& phase, const models::Batch& samples, std::uint64_t step,
                              std::size_t part) {
  const auto& config = setup_.config;
  const auto number = static_cast<std::uint64_t>(setup_.first_part) + part;
  const auto seed = mix_seed({config.seed, step, number}) + forwards_[part]++;
  std::optional<ScopedSeed> seeded;
  if (config.sync_batchnorm) {
    torch::manual_seed(seed);  // workers wait for each other inside
  } else {
    seeded.emplace(seed);
  }
  const Autocast autocast(config.precision == "bf16");
  return phase.loss(samples);
}

double Passes::forward_and_backward(const models::Phase& phase, const models::Batch& samples,
                                    const data::Batch& batch, std::size_t part, const OnLoss& on_loss) {
  const auto begin = Clock::now();
  const torch::Tensor loss = forward(phase, samples, batch.step, part);
  const auto forward_done = Clock::now();
  setup_.trace.add(Lane::compute, "forward", begin, forward_done);
  const auto value = loss.item<double>();
  on_loss(value);
  // The mean of the parts' gradients shall be the gradient of the mean over all samples, also where the last
  // batch of an epoch is not shared evenly.
  const double weight =
      static_cast<double>(samples.front().size(0)) * setup_.parts / static_cast<double>(batch.global_count);
  (weight == 1.0 ? loss : loss * weight).backward();
  setup_.trace.add(Lane::compute, "backward", forward_done, Clock::now());
  return value;
}

}  // namespace tutti::train
