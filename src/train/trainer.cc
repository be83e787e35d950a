#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/version.h"
#include "data/loader.h"
#include "models/batch_norm.h"
#include "net/group.h"
#include "observe/sampler.h"
#include "train/drawings.h"
#include "train/open_data.h"
#include "train/operators.h"
#include "train/pace.h"
#include "train/partitions.h"
#include "train/passes.h"
#include "train/plan.h"
#include "train/replica.h"
#include "train/requests.h"
#include "train/routing.h"
#include "train/saving.h"
#include "train/scoped_seed.h"
#include "train/skips.h"
#include "train/summary.h"

namespace tutti::train {
namespace {

using observe::Lane;

// Samples of a rehearsal; batch norm needs more than one.
constexpr std::size_t kRehearsed = 2;

class Trainer {
 public:
  Trainer(const Setup& setup, net::Transport& everyone, observe::EventSink& sink, net::Transport* neighbours)
      : setup_(setup),
        config_(setup.config),
        sink_(sink),
        operators_(
            setup.config.heartbeat_timeout_s > 0
                ? std::make_unique<OperatorProgress>(everyone.board(), everyone.rank(), timeout_of(config_))
                : nullptr),
        info_(models::find_model(config_.model, config_.loss)),
        channels_last_(config_.memory_format == "channels-last"),
        strategy_(exchange::find_strategy(config_.strategy)),
        training_(open_samples(setup, Part::training)),
        test_(open_samples(setup, Part::test)),
        plan_(make_plan(config_, training_->size())),
        tuning_(tuning_of(config_)),
        everyone_(everyone),
        workers_(everyone, config_.workers),
        all_(neighbours != nullptr ? *neighbours : workers_,
             exchange::algorithm_of(strategy_, config_.algorithm)),
        trace_(config_.trace, everyone.rank()),
        model_(make_model()) {
    tuning_.servers.incarnation = static_cast<std::uint32_t>(setup.restarts.size());
    const auto slow = config::parse_slow(config_);
    if (slow.rank == to_int(everyone.rank())) slowdown_ = slow.factor;
    if (config_.sync_batchnorm) {
      models::synchronise_batch_norm(*model_, [this](std::span<double> sums) { sum_over_workers(sums); });
    }
  }

  nlohmann::json run() {
    // Where workers do not keep step, a fast one makes steps that a slow one does not.
    const std::int64_t ahead =
        strategy_.asynchronous ? (plan_.total_steps - setup_.first_step) * all_.world() : 0;
    data::Loader loader(*training_, {.seed = config_.seed,
                                     .batch = static_cast<std::size_t>(plan_.batch),
                                     .workers = static_cast<std::size_t>(all_.world()),
                                     .rank = static_cast<std::size_t>(to_int(all_.rank())),
                                     .first_step = static_cast<std::uint64_t>(setup_.first_step),
                                     .end_step = static_cast<std::uint64_t>(plan_.total_steps + ahead),
                                     .augment = augment_of(config_)});
    say("waiting for the first samples");
    if (loader.has_next()) next_ = loader.next();  // a run that was killed at its end has no step left
    routing_.decide([&] { return model_->rows_read(passes_.tensors_of(*next_)); }, setup_.routes);
    start_from_the_same_weights();
    training_since_ = Clock::now();
    while (!over_ && exchange().steps_done() < plan_.total_steps && (next_ || loader.has_next())) {
      auto begin = Clock::now();
      const data::Batch batch = next_ ? *std::exchange(next_, std::nullopt) : loader.next();
      trace_.add(Lane::waiting, "data", begin, Clock::now());
      if (pacer_ && !pacer_->rehearsed()) {
        rehearse(batch);
        begin = Clock::now();
      }
      step(batch, loader, begin);
      after_step();
    }
    say("ending the training");
    // Replicas that differ stay as they are for the run to go on with them, and those that ended equal are
    // equal.
    const bool nothing_done = setup_.first_step == plan_.total_steps;
    if (!strategy_.drifts || (!stopped_ && !nothing_done)) exchange().finish(exchange::Afterwards::nothing);
    // Where workers are apart, one may have made its last step before another was told to stop. Now all know.
    if (asynchronous_) stopped_ = everyone_.board().decided(net::Request::stop).has_value();
    if (stopped_) {
      stop();
      return nullptr;
    }
    gather_survivors();
    conclude();
    return summarise();
  }

 private:
  std::shared_ptr<models::Model> make_model() {
    auto model = [&] {
      const ScopedSeed seeded(config_.seed);
      return info_.make(options_of(config_));
    }();
    if (config_.label_smoothing > 0) {
      dynamic_cast<models::Classifier&>(*model).smooth_labels(config_.label_smoothing);
    }
    const torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) {
      if (channels_last_ && p.dim() == 4) p.set_data(p.data().contiguous(torch::MemoryFormat::ChannelsLast));
    }
    model->train();
    return model;
  }

  // In the middle of a step.
  void sum_over_workers(std::span<double> values) {
    exchange().settle();
    all_.all_reduce({values.data(), values.size(), DType::f64}, collectives::ReduceOp::sum, "batch norm");
  }

  // Who tells, evaluates and saves: rank 0 while it lives.
  bool first() const { return everyone_.board().first_left(all_.world()) == all_.rank(); }

  // For whoever looks whether this rank gets on, and what it is at.
  void say(std::string_view doing) const { everyone_.board().say(everyone_.rank(), doing); }
  void get_on() const { everyone_.board().advance(everyone_.rank()); }

  void emit(const observe::Event& event) {
    if (first()) sink_.emit(event);
  }

  exchange::Architecture& exchange() { return *replica_->exchange; }
  exchange::TableRows* rows() { return exchange().rows(); }

  void make_replica() {
    pacer_.reset();
    replica_.reset();
    all_.release(before_replica_);
    replica_.emplace(
        Surroundings{*model_, phases_, strategy_, tuning_, config_.bucket_bytes, everyone_, all_, trace_},
        routing_.by_rows());
    if (config_.pace_ms > 0) {
      const std::chrono::duration<double, std::milli> step(config_.pace_ms * slowdown_);
      pacer_.emplace(replica_->buckets, replica_->tables, std::chrono::duration_cast<Clock::duration>(step),
                     config_.seed);
    }
    replica_->buckets.on_gradient([this](grad::ParamId id) {
      if (passes_.accumulating()) return;
      pacer_ && pacer_->rehearsing() ? pacer_->note(id) : announce(id);
    });
    replica_->tables.on_gradient([this](std::size_t table) {
      if (passes_.accumulating()) return;
      pacer_ && pacer_->rehearsing() ? pacer_->note_table(table) : rows()->on_gradient(table);
    });
  }

  void announce(grad::ParamId id) {
    if (!config_.no_overlap) exchange().on_gradient(id);
  }

  void start_from_the_same_weights() {
    say("taking over the first weights");
    if (routing_.by_rows().empty() || strategy_.asynchronous || config_.backup_workers > 0) {
      search_.reset();  // nothing to cut, or nobody to agree with
    } else if (search_) {
      tuning_.partitions = search_->first();
    }
    make_replica();
    if (setup_.checkpoint) resume();
    exchange().start(setup_.first_step, setup_.checkpoint.has_value());
    if (first() || survives_workers(config_)) initial_sha256_ = digest_of_model();
    emit(observe::RunStarted{setup_.first_step, plan_.total_steps, models::count_parameters(*model_),
                             exchange::describe(strategy_, all_, tuning_, first_bucket_bytes())});
  }

  // Rank 0 first: the others begin with its statistics, and then take back what was their own.
  void resume() {
    const Differs differs = strategy_.drifts ? Differs::all : Differs::buffers;
    const auto restore = [&] {
      return restore_worker(*setup_.checkpoint, all_.rank(), *replica_, buffers_, differs);
    };
    bool exact = first() && restore();
    buffers_.broadcast(all_);
    exact = exact || restore();
    emit(observe::Resumed{setup_.first_step, *setup_.checkpoint});
    if (!exact && setup_.first_step < plan_.total_steps) {
      sink_.emit(
          observe::Note{fmt::format("rank {}: the checkpoint has rank 0's replica alone; from here the run "
                                    "is another than it would have been",
                                    to_int(all_.rank()))});
    } else if (asynchronous_) {
      emit(
          observe::Note{fmt::format("--strategy {}: workers do not keep step, so this run will not repeat "
                                    "the undisturbed one bit by bit",
                                    config_.strategy)});
    }
  }

  std::uint64_t first_bucket_bytes() const {
    const auto& buckets = replica_->buckets;
    return buckets.size() > 0 ? buckets.layout(0).count * sizeof(float) : 0;
  }

  // Ends the exchange and begins another, with other tables by rows or other partitions. Parameters stay
  // where they are; the optimizer's state goes along.
  void begin_anew() {
    const std::int64_t done = exchange().steps_done();
    exchange().finish(exchange::Afterwards::another_session);
    bytes_before_ += exchange().bytes_sent();
    std::optional<Snapshot> state;
    if (first())
      state = snapshot_optimizer(replica_->buckets, replica_->tables, replica_->updater, Hold::copies);
    make_replica();
    if (first()) restore_optimizer(*state, replica_->buckets, replica_->tables, replica_->updater);
    exchange().start(done, true);
  }

  // Computes a step that does not count, to learn where in a step each gradient comes.
  void rehearse(const data::Batch& batch) {
    pacer_->begin_rehearsal();
    data::Batch few = batch;
    // Rows are those that all samples read; where there are none, a few show the order as well.
    if (rows() == nullptr) few.count = std::min(few.count, kRehearsed);
    if (few.count > 0) forward_and_backward(few);
    pacer_->end_rehearsal();
  }

  // The loss, if one was computed.
  std::optional<double> compute(const data::Batch& batch) {
    if (pacer_) {
      std::size_t phase = 0;
      pacer_->run(
          [&](grad::ParamId id) {
            const auto& buckets = replica_->buckets;
            for (; phase < buckets.layout(buckets.bucket_of(id)).phase; ++phase)
              exchange().finish_phase(phase);
            announce(id);
          },
          [this](std::size_t table) { rows()->on_gradient(table); }, [this] { get_on(); });
      return std::nullopt;
    }
    if (batch.count == 0) return std::nullopt;
    const auto longer = std::chrono::duration_cast<Clock::duration>(last_compute_ * (slowdown_ - 1));
    sleep_until(Clock::now() + longer, [this] { get_on(); });
    const auto begin = Clock::now();
    const double loss = forward_and_backward(batch);
    last_compute_ = Clock::now() - begin;
    if (operators_) operators_->after_pass(Clock::now() - begin);
    return loss;
  }

  // Forward, backward, exchange, update. `begin` is when the step began to wait for its data.
  void step(const data::Batch& batch, data::Loader& loader, Clock::time_point begin) {
    const auto index = static_cast<std::int64_t>(batch.step);
    say(fmt::format("computing step {}", index + 1));
    const double lr = optim::rate(plan_.schedule, index);
    replica_->updater.begin_step(index + 1, lr);
    skips_.before_step(replica_->updater.finite());
    const auto computing = Clock::now();
    const auto loss = compute(batch);
    look_ahead(loader);
    exchange().finish_step();
    skips_.after_step(replica_->updater.finite(), index + 1, all_.rank());
    const auto end = Clock::now();
    const auto times = exchange().times();

    series_.step.push_back(milliseconds(end - begin));
    series_.compute.push_back(milliseconds(end - computing - times.exposed));
    series_.exchange.push_back(milliseconds(times.busy));
    series_.exposed.push_back(milliseconds(times.exposed));
    series_.finite_check.push_back(milliseconds(replica_->updater.finite().time()));
    if (loss && std::isfinite(*loss)) series_.loss.push_back(*loss);
    series_.samples += static_cast<std::int64_t>(batch.count);
    order_.update(std::as_bytes(batch.samples));
    emit(observe::StepDone{.step = strategy_.asynchronous ? exchange().steps_done() : index + 1,
                           .total_steps = plan_.total_steps,
                           .epoch = plan_.epoch_of(index) + 1,
                           .samples = static_cast<std::int64_t>(batch.global_count),
                           .loss = loss.value_or(0),
                           .lr = lr,
                           .gradient_norm = replica_->updater.gradient_norm(),
                           .step_ms = series_.step.back(),
                           .compute_ms = series_.compute.back(),
                           .exchange_ms = series_.exchange.back(),
                           .exposed_exchange_ms = series_.exposed.back()});
  }

  // Tells the exchange which rows the next step reads.
  void look_ahead(data::Loader& loader) {
    if (rows() == nullptr || !loader.has_next()) return;
    next_ = loader.next();
    if (next_->count == 0) return;
    const auto read = model_->rows_read(passes_.tensors_of(*next_));
    const auto& all = routing_.embeddings();
    TUTTI_CHECK(read.size() == all.size(), "{} tables, {} read", all.size(), read.size());
    for (std::size_t t = 0; t < replica_->tables.size(); ++t) {
      const auto at = std::ranges::find(all, replica_->tables.name(t)) - all.begin();
      const auto numbers = read[static_cast<std::size_t>(at)].contiguous();
      rows()->expect(t, {numbers.data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel())});
    }
  }

  // The loss.
  double forward_and_backward(const data::Batch& batch) {
    return passes_.run(
        batch,
        [this](std::size_t phase) {
          if (phase > 0 && !pacer_) exchange().finish_phase(phase - 1);
          replica_->buckets.begin_phase(phase);
        },
        [this](std::size_t phase, double loss) {
          if (!pacer_) replica_->updater.finite().loss(phase, loss);
        });
  }

  // Between steps; the last one is followed by conclude().
  void after_step() {
    const std::int64_t before = std::exchange(steps_seen_, exchange().steps_done());
    saving_.report([this](const observe::Event& e) { sink_.emit(e); });
    if (steps_seen_ >= plan_.total_steps) return;
    // A worker that was late may have skipped steps.
    const auto passed = [&](std::int64_t every) { return steps_seen_ / every > before / every; };
    const bool epoch_done = passed(plan_.steps_per_epoch);
    // Where workers do not keep step, or differ, nobody waits for the others here: rank 0 looks at what it
    // has.
    const bool due = config_.checkpoint_every > 0 ? passed(config_.checkpoint_every) : epoch_done;
    const bool to_evaluate =
        !config_.no_evaluate && (config_.evaluate_every > 0 ? passed(config_.evaluate_every) : epoch_done);
    const auto asked = requests_.after_step(steps_seen_);
    stopped_ = over_ = asked.stop;
    if (stopped_) return;
    if (together_ && (epoch_done || due || to_evaluate)) buffers_.average(all_);
    if (to_evaluate && (together_ || first())) evaluate_now(steps_seen_, together_ ? &all_ : nullptr);
    if (target_ && end_here(to_evaluate)) return;
    const bool averaged = epoch_done || due || to_evaluate;
    if (due || asked.save) save(steps_seen_, averaged ? Differs::nothing : Differs::buffers);
    if (epoch_done && together_ && rows() != nullptr &&
        routing_.revise(replica_->tables, rows()->take_densities())) {
      begin_anew();
    }
    if (search_) search_partitions();
  }

  // Whether the target is reached: everyone says the same after the same step, or, where workers do not keep
  // step, when rank 0's word comes.
  bool end_here(bool evaluated) {
    if (asynchronous_) {
      const auto& board = everyone_.board();
      if (first() && reached_after_) board.decide(net::Request::end, steps_seen_);
      over_ = board.decided(net::Request::end).has_value();
    } else if (evaluated) {
      std::int32_t reached = reached_after_ ? 1 : 0;
      if (strategy_.drifts) all_.broadcast({&reached, 1, DType::i32}, Rank{0}, "target");
      over_ = reached == 1;
    }
    if (over_) last_step_ = steps_seen_;
    return over_;
  }

  void search_partitions() {
    if (rows() == nullptr) return search_.reset();  // all tables have turned dense
    const auto partitions = search_->after_step(rows()->last_wait(), all_);
    if (partitions) {
      tuning_.partitions = *partitions;
      begin_anew();
    }
    if (search_->choice() && !std::exchange(partitions_said_, true)) {
      emit(observe::Note{fmt::format("partitions: {}", search_->choice()->reason)});
    }
  }

  // Where workers may have died on the way, those that are left end the run among themselves.
  void gather_survivors() {
    if (!survives_workers(config_)) return;
    constexpr std::uint32_t kAfterTheExchange = 3;  // it meets up to twice to finish
    auto left =
        everyone_.board().meet(all_.rank(), all_.world(), kAfterTheExchange, timeout_of(config_), "the end");
    if (static_cast<int>(left.size()) == all_.world()) return;
    survivors_.emplace(everyone_, std::move(left));
    rest_.emplace(*survivors_);
  }
  collectives::Communicator& those_left() { return rest_ ? *rest_ : all_; }

  // Everyone that is left is here, with the same parameters.
  void conclude() {
    buffers_.average(those_left());
    const bool just_evaluated = over_ && together_;
    if (!config_.no_evaluate && !just_evaluated) evaluate_now(last_step_, &those_left());
    if (!saved_early_) save(last_step_, Differs::nothing);
    saving_.finish([this](const observe::Event& e) { sink_.emit(e); });
  }

  // As it was asked to: saves, and ends in the middle of the run.
  void stop() {
    if (!strategy_.drifts) steps_seen_ = exchange().steps_done();
    save(steps_seen_, Differs::buffers);
    saving_.finish([this](const observe::Event& e) { sink_.emit(e); });
    emit(observe::Note{
        config_.no_checkpoint
            ? fmt::format("stopped after step {}, without a checkpoint", steps_seen_)
            : fmt::format("stopped after step {}; --resume {} goes on", steps_seen_, config_.out)});
  }

  // The closing evaluation may take longer than a stop may: what has been trained is saved before.
  void save_if_told_to_stop(std::int64_t done) {
    const bool closing = done == last_step_ && steps_seen_ >= last_step_;
    if (!closing || saved_early_ || !first() || everyone_.board().asked(net::Request::stop) == 0) return;
    saved_early_ = true;
    save(done, Differs::nothing);
  }

  void evaluate_now(std::int64_t done, collectives::Communicator* all) {
    if (rows() != nullptr && done < last_step_) rows()->fetch_all();
    if (operators_) operators_->listen();
    auto last_batch = Clock::now();
    evaluation_ = evaluate(*model_, info_.measures, channels_last_, *test_, all,
                           [&](std::size_t batch, std::size_t batches) {
                             say(fmt::format("evaluating, batch {} of {}", batch, batches));
                             const auto now = Clock::now();
                             if (operators_ && batch > 1) operators_->after_pass(now - last_batch);
                             last_batch = now;
                             save_if_told_to_stop(done);
                           });
    if (first()) save_drawings(*model_, config_.out, done);
    emit(observe::Evaluated{.step = done,
                            .epoch = plan_.epoch_of(done - 1) + 1,
                            .samples = evaluation_->samples,
                            .figures = evaluation_->figures});
    if (const double loss = evaluation_->figures.at("loss"); !std::isfinite(loss)) {
      refuse_nonfinite(done, fmt::format("the test loss is {}", std::isnan(loss) ? "nan" : "inf"));
    }
    if (target_ && !reached_after_ && target_->reached_by(*evaluation_)) {
      reached_after_ = milliseconds(Clock::now() - training_since_) / 1000.0;
      emit(observe::Note{
          fmt::format("{} {} is reached after {:.1f} s", target_->figure, target_->value, *reached_after_)});
    }
  }

  // All workers call it. `beside` is what workers that have the same parameters keep for themselves just now.
  void save(std::int64_t done, Differs beside) {
    if (config_.no_checkpoint) return;
    say(fmt::format("saving the checkpoint of step {}", done));
    if (first() && done < last_step_ && !stopped_) exchange().fetch_state();
    Differs differs = Differs::nothing;
    if (together_ && !buffers_.empty()) differs = beside;
    if (strategy_.drifts && done < last_step_) differs = Differs::all;
    const Hold hold = done < last_step_ && !stopped_ ? Hold::copies : Hold::originals;
    saving_.save(*replica_, buffers_, {done, differs, first(), hold},
                 {{"config", config_},
                  {"version", kVersion},
                  {"routes", routing_.routes()},
                  {"data_sha256", setup_.data_sha256}});
  }

  void refuse_nonfinite(std::int64_t done, const std::string& what) {
    if (!replica_->updater.finite().skips()) throw NonFinite(all_.rank(), done, what);
    emit(observe::Note{fmt::format("step {}: {}", done, what)});
  }

  // What workers that skip steps on their own have not told yet.
  void say_who_skipped(const std::vector<RankReport>& ranks) {
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      if (ranks[r].skipped_steps == 0) continue;
      emit(observe::Note{fmt::format("rank {} skipped {} steps; the first, {}", ranks[r].rank,
                                     ranks[r].skipped_steps, ranks[r].first_skipped)});
    }
  }

  std::string digest_of_model() {
    const auto model = snapshot_model(replica_->buckets, replica_->tables, buffers_, hold_);
    return to_hex(checkpoint::parameters_digest(model.views()));
  }

  nlohmann::json summarise() {
    say("summing up the run");
    auto mine = make_report(series_, plan_.steps_per_epoch);
    mine.bytes_sent = bytes_before_ + exchange().bytes_sent();
    mine.parameters_sha256 = digest_of_model();
    mine.samples_sha256 = to_hex(order_.digest());
    mine.peak_memory_bytes = observe::peak_memory_bytes();
    mine.rank = to_int(all_.rank());
    mine.skipped_steps = skips_.count();
    mine.first_skipped = skips_.first();
    const auto ranks = gather_reports(those_left(), mine);
    if (!together_) say_who_skipped(ranks);
    if (config_.trace) write_trace(those_left(), trace_, std::filesystem::path(config_.out) / "trace.json");
    if (!first()) return nullptr;
    auto s = make_summary({.config = config_,
                           .plan = plan_,
                           .series = series_,
                           .first_step = setup_.first_step,
                           .steps = last_step_,
                           .words_a_sample = info_.complete(options_of(config_)).unroll,
                           .initial_sha256 = initial_sha256_,
                           .wall_seconds = milliseconds(Clock::now() - born_) / 1000.0,
                           .evaluation = evaluation_,
                           .target = target_,
                           .seconds_to_target = reached_after_,
                           .skips_together = together_},
                          ranks);
    s.update(exchange().report());
    s["checkpoint_hold_ms"] = quantile(saving_.held_ms(), 0.5);
    s["checkpoint_copy_ms"] = quantile(saving_.copied_ms(), 0.5);
    s["dropped_workers"] = nlohmann::json::array();
    for (const Rank r : everyone_.board().dropped()) s["dropped_workers"].push_back(to_int(r));
    s["data_sha256"] = setup_.data_sha256;
    s["restarts"] = setup_.restarts.size();
    if (!setup_.restarts.empty()) s["restart_causes"] = setup_.restarts;
    s["parameter_bytes"] = models::count_parameters(*model_) * static_cast<std::int64_t>(sizeof(float));
    s["collectives"] = nlohmann::json::array();
    for (const auto& [operation, choice] : exchange::collectives_of(strategy_, all_, first_bucket_bytes())) {
      s["collectives"].push_back({{"operation", name_of(operation)},
                                  {"algorithm", name_of(choice.algorithm)},
                                  {"bytes", first_bucket_bytes()},
                                  {"reason", choice.reason}});
    }
    if (!routing_.routes().empty()) s["routes"] = routing_.routes();
    if (!routing_.by_rows().empty()) s["partitions"] = tuning_.partitions;
    if (search_) s["partition_search"] = search_->report();
    return s;
  }

  const Clock::time_point born_ = Clock::now();
  const Setup& setup_;
  const config::TrainConfig& config_;
  observe::EventSink& sink_;
  const std::unique_ptr<OperatorProgress> operators_;  // before the model is made
  const models::ModelInfo info_;
  const bool channels_last_;
  const exchange::Strategy& strategy_;
  const bool asynchronous_ =
      strategy_.asynchronous || config_.backup_workers > 0;    // workers do not keep step
  const bool together_ = !asynchronous_ && !strategy_.drifts;  // and all have the same parameters after each
  const Hold hold_ = together_ ? Hold::originals : Hold::copies;  // others may write where workers are apart
  std::unique_ptr<data::Samples> training_;
  std::unique_ptr<data::Samples> test_;
  RunPlan plan_;
  exchange::Tuning tuning_;
  net::Transport& everyone_;
  net::Group workers_;
  collectives::Communicator all_;  // the workers
  const collectives::Communicator::Mark before_replica_ = all_.mark();
  observe::Trace trace_;
  std::shared_ptr<models::Model> model_;
  const std::vector<models::Phase> phases_ = model_->phases();
  Passes passes_{{config_, fields_of(setup_), phases_, plan_.micro_batch, all_.world(), all_.rank(), trace_}};
  const Buffers buffers_{*model_};
  Skips skips_{buffers_, together_ ? &all_ : nullptr,
               [this](std::string line) { emit(observe::Note{std::move(line)}); }};
  Routing routing_{{*model_, strategy_, tuning_, all_, config_,
                    [this](std::string line) { emit(observe::Note{std::move(line)}); }}};
  std::optional<PartitionSearch> search_ =
      config_.partitions == "auto" ? std::optional(PartitionSearch(config_.servers)) : std::nullopt;
  bool partitions_said_ = false;
  std::optional<Replica> replica_;
  std::uint64_t bytes_before_ = 0;  // sent by exchanges that have ended
  std::optional<data::Batch> next_;

  std::int64_t steps_seen_ = setup_.first_step;
  double slowdown_ = 1;
  std::optional<Pacer> pacer_;
  std::chrono::duration<double> last_compute_{};
  Sha256 order_;  // of the samples
  std::string initial_sha256_;
  StepSeries series_;
  std::optional<Evaluation> evaluation_;
  const std::optional<Target> target_ = target_of(config_, info_);
  std::optional<double> reached_after_;  // seconds
  Clock::time_point training_since_;
  bool over_ = false;  // before its time
  std::int64_t last_step_ = plan_.total_steps;
  std::optional<net::Survivors> survivors_;  // if any worker has died
  std::optional<collectives::Communicator> rest_;
  bool stopped_ = false;  // as it was asked to
  bool saved_early_ = false;
  Requests requests_{everyone_.board(), all_.rank(), all_.world(),
                     asynchronous_      ? Gait::asynchronous
                     : strategy_.drifts ? Gait::in_periods
                                        : Gait::together,
                     strategy_.drifts ? config_.sync_every : 1};
  Saving saving_{config_.out, everyone_.board(), all_.rank(), all_.world(), config_.on_nonfinite == "skip"};
};

}  // namespace

nlohmann::json train(const Setup& setup, net::Transport& everyone, observe::EventSink& sink,
                     net::Transport* neighbours) {
  everyone.board().say(everyone.rank(), "opening the data and making the model");
  Trainer trainer(setup, everyone, sink, neighbours);
  nlohmann::json summary = trainer.run();
  if (!summary.is_null()) {
    write_file_atomically(std::filesystem::path(setup.config.out) / "summary.json", summary.dump(2) + "\n");
  }
  return summary;
}

void serve(const Setup& setup, net::Transport& everyone) {
  ps::serve(everyone, tuning_of(setup.config).servers);
}

}  // namespace tutti::train
