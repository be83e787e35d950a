#include "train/checkpoints.h"

#include "base/version.h"

namespace tutti::train {

Checkpoints::Checkpoints(const RunContext& run, const TrainedModel& model, LiveReplica& live)
    : run_(run),
      model_(model),
      live_(live),
      saving_(run.config.out, run.board(), run.rank(), run.workers.world(), skips_nonfinite(run.config)) {}

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
                {"routes", live_.routing().routes()},
                {"data_sha256", run_.setup.data_sha256}});
}

}  // namespace tutti::train
