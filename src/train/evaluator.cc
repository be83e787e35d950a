#include "train/evaluator.h"

#include <cmath>

#include "base/error.h"
#include "train/generated_images.h"
#include "train/measure.h"

namespace tutti::train {

Evaluator::Evaluator(RunContext& run, models::Model& model)
    : run_(run), model_(model), target_(target_of(run.config, run.info)) {}

void Evaluator::evaluate(std::int64_t step, collectives::Collectives* all,
                         const std::function<void()>& before_batch) {
  if (run_.operators) run_.operators->listen();
  auto last_batch = Clock::now();
  const EvaluationSetup setup{run_.info.measures, channels_last(run_.config), *run_.test,
                              run_.config.reproducible ? run_.config.shards : 0};
  last_ = train::evaluate(model_, setup, all, [&](std::size_t batch, std::size_t batches) {
    run_.say(fmt::format("evaluating, batch {} of {}", batch, batches));
    const auto now = Clock::now();
    if (run_.operators && batch > 1) run_.operators->after_pass(now - last_batch);
    last_batch = now;
    before_batch();
  });
  if (run_.first()) save_generated_images(model_, run_.config.out, step);
  run_.emit(observe::Evaluated{.step = step,
                               .epoch = run_.plan.epoch_of(step - 1) + 1,
                               .samples = last_->samples,
                               .figures = last_->figures});
  refuse_nonfinite(step);
  if (target_ && !reached_after_ && target_->reached_by(*last_)) {
    reached_after_ = milliseconds(Clock::now() - since_) / 1000.0;
    run_.note(
        fmt::format("{} {} is reached after {:.1f} s", target_->figure, target_->value, *reached_after_));
  }
}

bool Evaluator::ends_run(std::int64_t steps, bool evaluated) {
  if (!target_) return false;
  if (run_.asynchronous) {
    if (run_.first() && reached_after_) run_.board().requests().decide(net::Request::end, steps);
    return run_.board().requests().decided(net::Request::end).has_value();
  }
  if (!evaluated) return false;
  std::int32_t word = reached_after_ ? 1 : 0;
  if (run_.strategy.replicas_differ) run_.workers.broadcast({&word, 1, DType::i32}, Rank{0}, "target");
  return word == 1;
}

void Evaluator::refuse_nonfinite(std::int64_t step) const {
  const double loss = last_->figures.at("loss");
  if (std::isfinite(loss)) return;
  const std::string what = fmt::format("the test loss is {}", std::isnan(loss) ? "nan" : "inf");
  if (!skips_nonfinite(run_.config)) throw NonFinite(run_.rank(), step, what);
  run_.note(fmt::format("step {}: {}", step, what));
}

}  // namespace tutti::train
