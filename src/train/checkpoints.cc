#include "train/checkpoints.h"

#include <thread>

#include "base/version.h"
#include "config/environment.h"
#include "state/arithmetic.h"

namespace tutti::train {

Checkpoints::Checkpoints(const RunContext& run, const TrainedModel& model, LiveReplica& live,
                         const SampleLedger& ledger)
    : run_(run),
      model_(model),
      live_(live),
      ledger_(ledger),
      saving_(run.config.out, run.board(), run.rank(), run.workers.world(), skips_nonfinite(run.config)) {}

void Checkpoints::count_samples(collectives::Collectives& all) {
  if (!run_.config.no_checkpoint) samples_ = gathered(all, ledger_);
}

void Checkpoints::save(std::int64_t done, Moment moment, state::Differs beside) {
  if (run_.config.no_checkpoint) return;
  run_.say(fmt::format("saving the checkpoint of step {}", done));
  if (run_.first() && moment == Moment::between_steps) live_.exchange().fetch_state();
  state::Differs differs = state::Differs::nothing;
  if (run_.together && !model_.buffers.empty()) differs = beside;
  if (run_.strategy.replicas_differ && moment != Moment::ended) differs = state::Differs::all;
  const state::Hold hold = moment == Moment::between_steps ? state::Hold::copies : state::Hold::originals;
  saving_.save(live_.replica(), model_.buffers, {done, differs, run_.first(), hold},
               {{"config", run_.config},
                {"version", kVersion},
                {"arithmetic", state::describe_arithmetic(run_.config.threads, config::kernel_variables(),
                                                          run_.config.device, run_.config.precision)},
                {"routes", live_.routing().routes()},
                {"data_sha256", run_.setup.data_sha256},
                {"model_sha256", run_.setup.model_sha256},
                {"chosen", run_.setup.chosen},
                {"sample_ledger", std::exchange(samples_, nullptr)}});
  if (differs != state::Differs::nothing && run_.board().mirror().shows_one_host()) tell_of_parts(done);
}

// Who puts the parts together looks for them on its own board, where those of other hosts do not show.
void Checkpoints::tell_of_parts(std::int64_t step) {
  using State = net::CheckpointParts::State;
  constexpr auto kGlance = std::chrono::milliseconds(5);
  const auto parts = run_.board().checkpoint_parts();
  const auto self = static_cast<std::size_t>(to_int(run_.rank()));
  std::vector<std::int32_t> written(static_cast<std::size_t>(run_.workers.world()));
  while (!run_.first() && parts.of(run_.rank(), step) == State::missing) std::this_thread::sleep_for(kGlance);
  written[self] = parts.of(run_.rank(), step) == State::written ? 1 : 0;
  run_.workers.all_reduce({written.data(), written.size(), DType::i32}, collectives::ReduceOp::max, "parts");
  for (std::size_t r = 0; run_.first() && r < written.size(); ++r) {
    if (r != self) parts.report(Rank{static_cast<int>(r)}, step, written[r] == 1);
  }
}

}  // namespace tutti::train
