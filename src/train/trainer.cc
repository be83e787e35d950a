#include "train/trainer.h"

#include "observe/resource_monitor.h"
#include "train/checkpoints.h"
#include "train/evaluator.h"
#include "train/live_replica.h"
#include "train/replica_check.h"
#include "train/run_requests.h"
#include "train/skips.h"
#include "train/step_log.h"
#include "train/step_watch.h"
#include "train/step_work.h"
#include "train/summary.h"

namespace tutti::train {
namespace {

// The loop over a worker's steps; what happens in one and between two are parts of their own.
class Trainer {
 public:
  Trainer(const Setup& setup, net::Transport& everyone, observe::EventSink& sink,
          const collectives::Hosts& hosts, const std::string& address)
      : run_(setup, everyone, sink, hosts, address) {}

  // The summary on the rank that tells of the run; none on others, and where the run was stopped.
  std::optional<observe::Summary> run() {
    data::Loader loader(*run_.training, run_.loading());
    run_.say("waiting for the first samples");
    if (loader.has_next()) next_ = loader.next();  // a run that was killed at its end has no step left
    start_run();
    while (!over_ && exchange().steps_done() < run_.plan.total_steps && (next_ || loader.has_next())) {
      auto begin = Clock::now();
      const data::Batch batch = next_ ? *std::exchange(next_, std::nullopt) : loader.next();
      run_.trace.add(observe::Lane::waiting, "data", begin, Clock::now());
      if (work_.needs_rehearsal()) {
        work_.rehearse(batch);
        begin = Clock::now();
      }
      step(batch, loader, begin);
      after_step();
    }
    return end_run();
  }

 private:
  exchange::RunningExchange& exchange() { return live_.exchange(); }
  exchange::Updater& updater() { return live_.replica().updater; }

  void start_run() {
    live_.start([&] { return live_.rows_read(work_.micro_batches(*next_)); });
    if (run_.first() || survives_workers(run_.config)) initial_sha256_ = live_.digest();
    run_.emit(observe::RunStarted{run_.setup.first_step, run_.plan.total_steps,
                                  models::count_parameters(*model_.network), live_.describe()});
    watch_.start(live_.replica());
    evaluator_.start();
  }

  // Forward, backward, exchange, update. `begin` is when the step began to wait for its data.
  void step(const data::Batch& batch, data::Loader& loader, Clock::time_point begin) {
    const auto index = static_cast<std::int64_t>(batch.step);
    run_.say(fmt::format("computing step {}", index + 1));
    const double lr = optim::rate(run_.plan.schedule, index);
    updater().begin_step(index + 1, lr);
    skips_.before_step(updater().finite());
    watch_.begin_step(index + 1, live_.replica());
    const auto computing = Clock::now();
    auto loss = work_.run(batch);
    look_ahead(loader);
    exchange().finish_step();
    if (run_.config.reproducible) loss = work_.finish_shards(batch);
    skips_.after_step(updater().finite(), index + 1, run_.rank());
    watch_.end_step();
    if (loss) ledger_.add(batch.epoch, batch.samples);
    log_.add({.batch = batch,
              .begin = begin,
              .computing = computing,
              .end = Clock::now(),
              .times = exchange().times(),
              .finite_check = updater().finite().time(),
              .loss = loss,
              .lr = lr,
              .gradient_norm = updater().gradient_norm(),
              .steps_done = exchange().steps_done()});
  }

  // Rows of the next step can be on their way while this one is exchanged.
  void look_ahead(data::Loader& loader) {
    if (exchange().rows() == nullptr || !loader.has_next()) return;
    next_ = loader.next();
    if (next_->count > 0) live_.expect(work_.micro_batches(*next_));
  }

  // Between two steps: what is due after so many of them. Where workers do not keep step, or differ, nobody
  // waits for the others here: rank 0 looks at what it has.
  void after_step() {
    const std::int64_t before = std::exchange(steps_seen_, exchange().steps_done());
    checkpoints_.report();
    replicas_.after_step(steps_seen_, live_.replica().buckets, model_.shared_buffers,
                         [this] { checkpoints_.finish(); });
    if (steps_seen_ >= run_.plan.total_steps) return;
    const Due due = due_after(run_.config, run_.plan, before, steps_seen_);
    const auto asked = requests_.after_step(steps_seen_);
    stopped_ = over_ = asked.stop;
    if (stopped_) return;
    if (run_.together && due.anything()) model_.average_buffers(run_.workers);
    if (due.evaluation && (run_.together || run_.first())) {
      evaluate(steps_seen_, run_.together ? &run_.workers : nullptr);
    }
    if (evaluator_.ends_run(steps_seen_, due.evaluation)) {
      over_ = true;
      last_step_ = steps_seen_;
      return;
    }
    if (due.checkpoint || asked.save) {
      if (run_.together) checkpoints_.count_samples(run_.workers);
      const state::Differs beside = due.anything() ? state::Differs::nothing : model_.differs;
      checkpoints_.save(steps_seen_, Moment::between_steps, beside);
    }
    live_.after_step(due.end_of_epoch);
  }

  std::optional<observe::Summary> end_run() {
    run_.say("ending the training");
    // Replicas that differ stay as they are for the run to go on with them, and those that ended equal are
    // equal.
    const bool made_some = run_.setup.first_step < run_.plan.total_steps;
    const bool to_meet = !run_.strategy.replicas_differ || (!stopped_ && made_some);
    if (to_meet) exchange().finish(exchange::Afterwards::nothing);
    // Where workers are apart, one may have made its last step before another was told to stop. Now all know.
    if (run_.asynchronous) stopped_ = run_.board().requests().decided(net::Request::stop).has_value();
    if (stopped_) {
      stop();
      return std::nullopt;
    }
    run_.gather_survivors();
    conclude();
    return summarise();
  }

  // As it was asked to: saves, and ends in the middle of the run.
  void stop() {
    if (!run_.asynchronous) checkpoints_.count_samples(run_.workers);
    if (!run_.strategy.replicas_differ) steps_seen_ = exchange().steps_done();
    checkpoints_.save(steps_seen_, Moment::stopped, model_.differs);
    checkpoints_.finish();
    run_.board().requests().set_met(net::Request::stop);
    run_.note(run_.config.no_checkpoint
                  ? fmt::format("stopped after step {}, without a checkpoint", steps_seen_)
                  : fmt::format("stopped after step {}; --resume {} goes on", steps_seen_, run_.config.out));
  }

  // Everyone that is left is here, with the same parameters.
  void conclude() {
    model_.average_buffers(run_.workers_left());
    const bool just_evaluated = over_ && run_.together;
    checkpoints_.count_samples(run_.workers_left());
    if (!run_.config.no_evaluate && !just_evaluated) evaluate(last_step_, &run_.workers_left());
    if (!saved_early_) checkpoints_.save(last_step_, Moment::ended, state::Differs::nothing);
    checkpoints_.finish();
  }

  void evaluate(std::int64_t done, collectives::Collectives* all) {
    if (exchange().rows() != nullptr && done < last_step_) exchange().rows()->fetch_all();
    evaluator_.evaluate(done, all, [&] { save_if_told_to_stop(done); });
  }

  // The closing evaluation may take longer than a stop may: what has been trained is saved before.
  void save_if_told_to_stop(std::int64_t done) {
    const bool closing = done == last_step_ && steps_seen_ >= last_step_ && !saved_early_;
    if (!closing || !run_.first() || run_.board().requests().asked(net::Request::stop) == 0) return;
    saved_early_ = true;
    checkpoints_.save(done, Moment::ended, state::Differs::nothing);
  }

  std::optional<observe::Summary> summarise() {
    run_.say("summing up the run");
    auto mine = log_.report();
    mine.bytes_sent = live_.bytes_sent();
    mine.parameters_sha256 = live_.digest();
    mine.peak_memory_bytes = observe::peak_memory_bytes();
    mine.skipped_steps = skips_.count();
    mine.first_skipped = skips_.first();
    mine.epochs = ledger_.epochs();
    const auto ranks = gather_reports(run_.workers_left(), mine);
    if (!run_.together) {
      for (std::string& line : who_skipped(ranks)) run_.note(std::move(line));
    }
    if (run_.config.trace) write_trace(run_.workers_left(), run_.trace, run_.folder() / "trace.json");
    if (!run_.first()) return std::nullopt;
    auto summary = make_summary({.setup = run_.setup,
                                 .plan = run_.plan,
                                 .series = log_.series(),
                                 .steps = last_step_,
                                 .words_a_sample = run_.info.complete(options_of(run_.config)).unroll,
                                 .parameters = models::count_parameters(*model_.network),
                                 .initial_sha256 = initial_sha256_,
                                 .wall_seconds = milliseconds(Clock::now() - born_) / 1000.0,
                                 .evaluation = evaluator_.last(),
                                 .target = evaluator_.target(),
                                 .seconds_to_target = evaluator_.seconds_to_target(),
                                 .skips_together = run_.together,
                                 .checkpoint_hold_ms = checkpoints_.hold_ms(),
                                 .checkpoint_copy_ms = checkpoints_.copy_ms(),
                                 .dropped_workers = net::dropped(run_.board())},
                                ranks);
    live_.add_to(summary);
    return summary;
  }

  const Clock::time_point born_ = Clock::now();
  RunContext run_;
  const TrainedModel model_{run_};
  StepWork work_{run_, model_};
  StepWatch watch_{run_, model_.buffers};
  LiveReplica live_{run_, model_, work_};
  Evaluator evaluator_{run_, *model_.network};
  Skips skips_{model_.buffers, run_.together ? &run_.workers : nullptr,
               [this](std::string line) { run_.note(std::move(line)); }};
  RunRequests requests_ = run_.make_requests();
  ReplicaCheck replicas_{run_.workers, run_.config.check_replicas, run_.trace};
  SampleLedger ledger_{run_.samples_before()};
  Checkpoints checkpoints_{run_, model_, live_, ledger_};
  StepLog log_{run_};

  std::optional<data::Batch> next_;
  std::int64_t steps_seen_ = run_.setup.first_step;
  std::int64_t last_step_ = run_.plan.total_steps;
  bool over_ = false;     // before its time
  bool stopped_ = false;  // as it was asked to
  bool saved_early_ = false;
  std::string initial_sha256_;
};

}  // namespace

std::optional<observe::Summary> train(const Setup& setup, net::Transport& everyone, observe::EventSink& sink,
                                      const collectives::Hosts& hosts, const std::string& address) {
  everyone.board().say(everyone.rank(), "opening the data and making the model");
  Trainer trainer(setup, everyone, sink, hosts, address);
  auto summary = trainer.run();
  if (summary) observe::write_summary(setup.config.out, *summary);
  return summary;
}

}  // namespace tutti::train
