#include "train/step_log.h"

#include <algorithm>
#include <cmath>

namespace tutti::train {

void StepLog::add(const Step& s) {
  series_.step.push_back(milliseconds(s.end - s.begin));
  series_.compute.push_back(milliseconds(s.end - s.computing - s.times.exposed));
  series_.exchange.push_back(milliseconds(s.times.busy));
  series_.exposed.push_back(milliseconds(s.times.exposed));
  series_.finite_check.push_back(milliseconds(s.finite_check));
  if (s.loss && std::isfinite(*s.loss)) series_.loss.push_back(*s.loss);
  series_.samples += static_cast<std::int64_t>(s.batch.count);
  order_.update(std::as_bytes(s.batch.samples));
  const auto index = static_cast<std::int64_t>(s.batch.step);
  const std::int64_t total = run_.plan.total_steps;
  // A gradient that was on its way when another worker's ended the run belongs to no step after the last.
  run_.emit(observe::StepDone{.step = run_.strategy.asynchronous ? std::min(s.steps_done, total) : index + 1,
                              .total_steps = total,
                              .epoch = run_.plan.epoch_of(index) + 1,
                              .samples = static_cast<std::int64_t>(s.batch.global_count),
                              .loss = s.loss.value_or(0),
                              .lr = s.lr,
                              .gradient_norm = s.gradient_norm,
                              .step_ms = series_.step.back(),
                              .compute_ms = series_.compute.back(),
                              .exchange_ms = series_.exchange.back(),
                              .exposed_exchange_ms = series_.exposed.back()});
}

RankReport StepLog::report() {
  auto report = make_report(series_, run_.plan.steps_per_epoch);
  report.samples_sha256 = to_hex(order_.digest());
  report.rank = to_int(run_.rank());
  return report;
}

}  // namespace tutti::train
