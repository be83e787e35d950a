#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "base/version.h"
#include "data/loader.h"
#include "exchange/strategy.h"
#include "net/group.h"
#include "train/evaluate.h"
#include "train/measure.h"
#include "train/pace.h"
#include "train/plan.h"
#include "train/snapshot.h"

namespace tutti::train {
namespace {

using observe::Lane;

data::ImageSet open_part(const Setup& setup, data::FileRole images, data::FileRole labels,
                         std::size_t classes) {
  return data::ImageSet::open(setup.files[static_cast<std::size_t>(images)],
                              setup.files[static_cast<std::size_t>(labels)], classes);
}

class Trainer {
 public:
  Trainer(const Setup& setup, net::Transport& everyone, observe::EventSink& sink, net::Transport* neighbours)
      : setup_(setup),
        config_(setup.config),
        sink_(sink),
        info_(models::find_model(config_.model)),
        dataset_(data::find_dataset(config_.data)),
        channels_last_(config_.memory_format == "channels-last"),
        strategy_(exchange::find_strategy(config_.strategy)),
        training_(
            open_part(setup, data::FileRole::train_images, data::FileRole::train_labels, dataset_.classes)),
        test_(open_part(setup, data::FileRole::test_images, data::FileRole::test_labels, dataset_.classes)),
        table_(data::normalising_table(dataset_.mean, dataset_.deviation)),
        plan_(make_plan(config_, training_.size())),
        tuning_(tuning_of(config_)),
        workers_(everyone, config_.workers),
        all_(neighbours != nullptr ? *neighbours : workers_,
             exchange::algorithm_of(strategy_, config_.algorithm)),
        trace_(config_.trace, everyone.rank()),
        model_(make_model()),
        buckets_(*model_, config_.bucket_bytes, [this](std::size_t bytes) { return all_.allocate(bytes); }),
        updater_(buckets_, optimizer_settings(config_)),
        exchange_(exchange::make_exchange(strategy_, {buckets_, updater_, everyone, all_, trace_}, tuning_)) {
    const auto slow = config::parse_slow(config_);
    if (slow.rank == to_int(everyone.rank())) slowdown_ = slow.factor;
    if (config_.pace_ms > 0) {
      const std::chrono::duration<double, std::milli> step(config_.pace_ms * slowdown_);
      pacer_.emplace(buckets_, std::chrono::duration_cast<Clock::duration>(step), config_.seed);
    }
    buckets_.on_gradient([this](grad::ParamId id) {
      pacer_ && pacer_->rehearsing() ? pacer_->note(id) : exchange_->on_gradient(id);
    });
  }

  nlohmann::json run() {
    start_from_the_same_weights();
    // Where workers do not keep step, a fast one makes steps that a slow one does not.
    const std::int64_t ahead = strategy_.apart ? (plan_.total_steps - setup_.first_step) * all_.world() : 0;
    data::Loader loader(training_, table_,
                        {.seed = config_.seed,
                         .batch = static_cast<std::size_t>(plan_.batch),
                         .workers = static_cast<std::size_t>(all_.world()),
                         .rank = static_cast<std::size_t>(to_int(all_.rank())),
                         .first_step = static_cast<std::uint64_t>(setup_.first_step),
                         .end_step = static_cast<std::uint64_t>(plan_.total_steps + ahead)});
    while (exchange_->steps_done() < plan_.total_steps && loader.has_next()) {
      auto begin = Clock::now();
      const data::Batch batch = loader.next();
      trace_.add(Lane::waiting, "data", begin, Clock::now());
      if (pacer_ && series_.step.empty()) {
        rehearse(batch);
        begin = Clock::now();
      }
      step(batch, begin);
      after_step();
    }
    exchange_->finish();
    conclude();
    return summarise();
  }

 private:
  std::shared_ptr<models::Model> make_model() {
    torch::manual_seed(config_.seed);
    auto model = models::make_model(config_.model);
    const torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) {
      if (channels_last_ && p.dim() == 4) p.set_data(p.data().contiguous(torch::MemoryFormat::ChannelsLast));
    }
    model->train();
    return model;
  }

  bool first() const { return all_.rank() == Rank{0}; }

  void emit(const observe::Event& event) {
    if (first()) sink_.emit(event);
  }

  void start_from_the_same_weights() {
    if (setup_.checkpoint) {
      if (first()) restore(checkpoint::load(*setup_.checkpoint), buckets_, updater_);
      emit(observe::Resumed{setup_.first_step, *setup_.checkpoint});
    }
    exchange_->start(setup_.first_step, setup_.checkpoint.has_value());
    emit(observe::RunStarted{
        setup_.first_step, plan_.total_steps, info_.parameters,
        exchange::describe(strategy_, all_, tuning_, buckets_.layout(0).count * sizeof(float))});
  }

  // Computes a step that does not count, to learn where in a step each gradient comes.
  void rehearse(const data::Batch& batch) {
    pacer_->begin_rehearsal();
    if (batch.count > 0) forward_and_backward(batch);
    pacer_->end_rehearsal();
  }

  // The loss, if one was computed.
  std::optional<double> compute(const data::Batch& batch) {
    if (pacer_) {
      pacer_->run([this](grad::ParamId id) { exchange_->on_gradient(id); });
      return std::nullopt;
    }
    if (batch.count == 0) return std::nullopt;
    std::this_thread::sleep_for(last_compute_ * (slowdown_ - 1));
    const auto begin = Clock::now();
    const double loss = forward_and_backward(batch);
    last_compute_ = Clock::now() - begin;
    return loss;
  }

  // Forward, backward, exchange, update. `begin` is when the step began to wait for its data.
  void step(const data::Batch& batch, Clock::time_point begin) {
    const auto index = static_cast<std::int64_t>(batch.step);
    const double lr = optim::scaled_lr(plan_.warm_up, index);
    updater_.begin_step(index + 1, lr);
    // Seeded by the step, so that a resumed run draws what the undisturbed one drew.
    torch::manual_seed(mix_seed({config_.seed, batch.step, static_cast<std::uint64_t>(to_int(all_.rank()))}));
    const auto computing = Clock::now();
    const auto loss = compute(batch);
    exchange_->finish_step();
    const auto end = Clock::now();
    const auto times = exchange_->times();

    series_.step.push_back(milliseconds(end - begin));
    series_.compute.push_back(milliseconds(end - computing - times.exposed));
    series_.exchange.push_back(milliseconds(times.busy));
    series_.exposed.push_back(milliseconds(times.exposed));
    if (loss) series_.loss.push_back(*loss);
    samples_ += static_cast<std::int64_t>(batch.count);
    emit(observe::StepDone{.step = strategy_.apart ? exchange_->steps_done() : index + 1,
                           .total_steps = plan_.total_steps,
                           .epoch = plan_.epoch_of(index) + 1,
                           .samples = static_cast<std::int64_t>(batch.global_count),
                           .loss = loss.value_or(0),
                           .lr = lr,
                           .step_ms = series_.step.back(),
                           .compute_ms = series_.compute.back(),
                           .exchange_ms = series_.exchange.back(),
                           .exposed_exchange_ms = series_.exposed.back()});
  }

  double forward_and_backward(const data::Batch& batch) {
    const auto begin = Clock::now();
    const auto count = static_cast<std::int64_t>(batch.count);
    const auto images = as_images(batch.pixels.data(), count, info_, channels_last_);
    const auto labels =
        torch::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {count}, torch::kInt64);
    torch::Tensor loss = torch::nn::functional::cross_entropy(model_->forward(images), labels);
    const auto forward_done = Clock::now();
    trace_.add(Lane::compute, "forward", begin, forward_done);
    // The mean of the ranks' gradients shall be the gradient of the mean over all samples, also where the
    // last batch of an epoch is not shared evenly.
    const double weight = static_cast<double>(count) * all_.world() / static_cast<double>(batch.global_count);
    (weight == 1.0 ? loss : loss * weight).backward();
    trace_.add(Lane::compute, "backward", forward_done, Clock::now());
    const auto value = loss.item<double>();
    if (!std::isfinite(value)) {
      throw RunError(fmt::format("rank {}: the loss of step {} is {}; a smaller --lr may help",
                                 to_int(all_.rank()), batch.step + 1, value));
    }
    return value;
  }

  // Between steps; the last one is followed by conclude().
  void after_step() {
    const std::int64_t before = std::exchange(steps_seen_, exchange_->steps_done());
    if (steps_seen_ >= plan_.total_steps) return;
    // A worker that was late may have skipped steps.
    const auto passed = [&](std::int64_t every) { return steps_seen_ / every > before / every; };
    const bool epoch_done = passed(plan_.steps_per_epoch);
    // Where workers do not keep step, or differ, nobody waits for the others here: rank 0 looks at what it
    // has.
    const bool together = !strategy_.apart && !strategy_.drifts && config_.backup_workers == 0;
    if (!config_.no_evaluate && epoch_done && (together || first())) {
      evaluate_now(steps_seen_, together ? &all_ : nullptr);
    }
    const bool due = config_.checkpoint_every > 0 ? passed(config_.checkpoint_every) : epoch_done;
    if (!first() || !due) return;
    exchange_->fetch_state();
    save(steps_seen_);
  }

  // Everyone is here, with the same parameters.
  void conclude() {
    if (!config_.no_evaluate) evaluate_now(plan_.total_steps, &all_);
    if (first()) save(plan_.total_steps);
  }

  void evaluate_now(std::int64_t done, collectives::Communicator* all) {
    evaluation_ = evaluate(*model_, info_, channels_last_, test_, table_, all);
    emit(observe::Evaluated{.step = done,
                            .epoch = plan_.epoch_of(done - 1) + 1,
                            .samples = evaluation_->samples,
                            .loss = evaluation_->loss,
                            .accuracy = evaluation_->accuracy});
  }

  void save(std::int64_t done) {
    const auto parameters = snapshot_parameters(buckets_);
    const auto optimizer = snapshot_optimizer(buckets_, updater_);
    const auto path = checkpoint::save(config_.out, done, parameters.views(), optimizer.views(),
                                       {{"config", config_}, {"version", kVersion}});
    emit(observe::CheckpointSaved{done, path.string()});
  }

  RankReport report() {
    RankReport r;
    r.compute_ms = quantile(series_.compute, 0.5);
    r.exchange_ms = quantile(series_.exchange, 0.5);
    r.exposed_exchange_ms = quantile(series_.exposed, 0.5);
    const std::size_t tail = std::min(series_.loss.size(), static_cast<std::size_t>(plan_.steps_per_epoch));
    if (tail > 0) {
      r.train_loss =
          std::accumulate(series_.loss.end() - static_cast<std::ptrdiff_t>(tail), series_.loss.end(), 0.0) /
          static_cast<double>(tail);
    }
    r.steps = static_cast<std::int64_t>(series_.step.size());
    r.samples = samples_;
    r.seconds = std::accumulate(series_.step.begin(), series_.step.end(), 0.0) / 1000.0;
    r.bytes_sent = exchange_->bytes_sent();
    r.parameters_sha256 = to_hex(checkpoint::parameters_digest(snapshot_parameters(buckets_).views()));
    return r;
  }

  nlohmann::json summarise() {
    const auto texts = collectives::gather_text(all_, nlohmann::json(report()).dump(), "reports");
    const auto traces =
        collectives::gather_text(all_, config_.trace ? trace_.events().dump() : "[]", "traces");
    if (!first()) return nullptr;
    std::vector<RankReport> ranks;
    for (const auto& text : texts) ranks.push_back(nlohmann::json::parse(text).get<RankReport>());
    if (config_.trace) {
      std::vector<nlohmann::json> parsed;
      for (const auto& text : traces) parsed.push_back(nlohmann::json::parse(text));
      write_file_atomically(std::filesystem::path(config_.out) / "trace.json",
                            observe::join_traces(parsed).dump());
    }
    return make_summary(ranks);
  }

  nlohmann::json make_summary(const std::vector<RankReport>& ranks) {
    const auto mean = [&](auto member) {
      double sum = 0;
      for (const RankReport& r : ranks) sum += static_cast<double>(r.*member);
      return sum / static_cast<double>(ranks.size());
    };
    auto replicas = nlohmann::json::array();
    for (const RankReport& r : ranks) replicas.push_back(r.parameters_sha256);
    double seconds = 0;
    double gradients = 0;
    double samples = 0;
    auto steps = nlohmann::json::array();
    for (const RankReport& r : ranks) {
      seconds = std::max(seconds, r.seconds);
      gradients += static_cast<double>(r.steps);
      samples += static_cast<double>(r.samples);
      steps.push_back(r.steps);
    }
    nlohmann::json s = {
        {"model", config_.model},
        {"data", config_.data},
        {"strategy", config_.strategy},
        {"workers", config_.workers},
        {"servers", config_.servers},
        {"steps", plan_.total_steps},
        {"batch_per_worker", plan_.batch},
        {"seed", config_.seed},
        {"reproducible", false},
        {"samples_per_second", samples / seconds},
        {"steps_per_second", static_cast<double>(plan_.total_steps - setup_.first_step) / seconds},
        {"gradients_per_second", gradients / seconds},
        {"steps_per_worker", steps},
        {"pace_ms", config_.pace_ms},
        {"slow", config_.slow},
        {"step_ms", {{"median", quantile(series_.step, 0.5)}, {"p90", quantile(series_.step, 0.9)}}},
        {"compute_ms", mean(&RankReport::compute_ms)},
        {"exchange_ms", mean(&RankReport::exchange_ms)},
        {"exposed_exchange_ms", mean(&RankReport::exposed_exchange_ms)},
        {"bytes_sent_per_worker", static_cast<std::uint64_t>(mean(&RankReport::bytes_sent))},
        {"bytes_sent_per_server", 0},
        {"train_loss", mean(&RankReport::train_loss)},
        {"test_loss", nullptr},
        {"test_accuracy", nullptr},
        {"wall_seconds", milliseconds(Clock::now() - born_) / 1000.0},
        {"parameters_sha256", ranks[0].parameters_sha256},
        {"replicas_sha256", replicas},
        {"config", config_},
        {"version", kVersion}};
    s.update(exchange_->report());
    if (pacer_) s["train_loss"] = nullptr;
    if (evaluation_) {
      s["test_loss"] = evaluation_->loss;
      s["test_accuracy"] = evaluation_->accuracy;
    }
    return s;
  }

  const Clock::time_point born_ = Clock::now();
  const Setup& setup_;
  const config::TrainConfig& config_;
  observe::EventSink& sink_;
  const models::ModelInfo& info_;
  const data::DatasetInfo& dataset_;
  const bool channels_last_;
  const exchange::Strategy& strategy_;
  data::ImageSet training_;
  data::ImageSet test_;
  data::PixelTable table_;
  RunPlan plan_;
  exchange::Tuning tuning_;
  net::Group workers_;
  collectives::Communicator all_;  // the workers
  observe::Trace trace_;
  std::shared_ptr<models::Model> model_;
  grad::Buckets buckets_;
  exchange::Updater updater_;
  std::unique_ptr<exchange::Exchange> exchange_;

  std::int64_t steps_seen_ = setup_.first_step;
  double slowdown_ = 1;
  std::optional<Pacer> pacer_;
  std::chrono::duration<double> last_compute_{};
  std::int64_t samples_ = 0;
  StepSeries series_;
  std::optional<Evaluation> evaluation_;
};

}  // namespace

nlohmann::json train(const Setup& setup, net::Transport& everyone, observe::EventSink& sink,
                     net::Transport* neighbours) {
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
