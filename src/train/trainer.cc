#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/version.h"
#include "data/loader.h"
#include "exchange/strategy.h"
#include "train/evaluate.h"
#include "train/measure.h"
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
  Trainer(const Setup& setup, net::Transport& transport, observe::EventSink& sink)
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
        all_(transport, exchange::algorithm_of(strategy_, config_.algorithm)),
        trace_(config_.trace, transport.rank()),
        model_(make_model()),
        buckets_(*model_, config_.bucket_bytes, [this](std::size_t bytes) { return all_.allocate(bytes); }),
        updater_(buckets_, optimizer_settings(config_)),
        exchange_(exchange::make_exchange(strategy_, {buckets_, updater_, all_, trace_})) {
    buckets_.on_gradient([this](grad::ParamId id) { exchange_->on_gradient(id); });
  }

  nlohmann::json run() {
    start_from_the_same_weights();
    const auto bytes_before = all_.bytes_sent();
    data::Loader loader(training_, table_,
                        {.seed = config_.seed,
                         .batch = static_cast<std::size_t>(plan_.batch),
                         .workers = static_cast<std::size_t>(all_.world()),
                         .rank = static_cast<std::size_t>(to_int(all_.rank())),
                         .first_step = static_cast<std::uint64_t>(setup_.first_step),
                         .end_step = static_cast<std::uint64_t>(plan_.total_steps)});
    while (loader.has_next()) {
      const auto begin = Clock::now();
      const data::Batch batch = loader.next();
      const auto got = Clock::now();
      trace_.add(Lane::waiting, "data", begin, got);
      step(batch, begin);
      exchanged_bytes_ = all_.bytes_sent() - bytes_before - other_bytes_;
      after_step(static_cast<std::int64_t>(batch.step) + 1);
    }
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
    std::vector<std::span<float>> parameters;
    for (std::size_t b = 0; b < buckets_.size(); ++b) parameters.push_back(buckets_.parameters(b));
    exchange::broadcast_from_first(all_, buckets_, parameters, "initial weights");
    for (int s = 0; setup_.checkpoint && s < updater_.slots(); ++s) {
      exchange::broadcast_from_first(all_, buckets_, updater_.slot(s), "optimizer state");
    }
    emit(observe::RunStarted{setup_.first_step, plan_.total_steps, info_.parameters,
                             exchange::describe(strategy_, all_, buckets_.layout(0).count * sizeof(float))});
  }

  // Forward, backward, exchange, update. `begin` is when the step began to wait for its data.
  void step(const data::Batch& batch, Clock::time_point begin) {
    const auto index = static_cast<std::int64_t>(batch.step);
    const double lr = optim::scaled_lr(plan_.warm_up, index);
    updater_.begin_step(index + 1, lr);
    // Seeded by the step, so that a resumed run draws what the undisturbed one drew.
    torch::manual_seed(mix_seed({config_.seed, batch.step, static_cast<std::uint64_t>(to_int(all_.rank()))}));
    const auto computing = Clock::now();
    const double loss = batch.count > 0 ? forward_and_backward(batch) : 0.0;
    exchange_->finish_step();
    const auto end = Clock::now();
    const auto times = exchange_->times();

    series_.step.push_back(milliseconds(end - begin));
    series_.compute.push_back(milliseconds(end - computing - times.exposed));
    series_.exchange.push_back(milliseconds(times.busy));
    series_.exposed.push_back(milliseconds(times.exposed));
    if (batch.count > 0) series_.loss.push_back(loss);
    samples_ += static_cast<std::int64_t>(batch.global_count);
    emit(observe::StepDone{.step = index + 1,
                           .total_steps = plan_.total_steps,
                           .epoch = plan_.epoch_of(index) + 1,
                           .samples = static_cast<std::int64_t>(batch.global_count),
                           .loss = loss,
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

  void after_step(std::int64_t done) {
    const auto sent = all_.bytes_sent();
    const bool last = done == plan_.total_steps;
    const bool epoch_done = plan_.ends_epoch(done);
    if (!config_.no_evaluate && (last || epoch_done)) {
      evaluation_ = evaluate(*model_, info_, channels_last_, test_, table_, all_);
      emit(observe::Evaluated{.step = done,
                              .epoch = plan_.epoch_of(done - 1) + 1,
                              .samples = evaluation_->samples,
                              .loss = evaluation_->loss,
                              .accuracy = evaluation_->accuracy});
    }
    const bool due = config_.checkpoint_every > 0 ? done % config_.checkpoint_every == 0 : epoch_done;
    if (first() && (last || due)) save(done);
    other_bytes_ += all_.bytes_sent() - sent;
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
    r.bytes_sent = exchanged_bytes_;
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
    const double seconds = std::accumulate(series_.step.begin(), series_.step.end(), 0.0) / 1000.0;
    nlohmann::json s = {
        {"model", config_.model},
        {"data", config_.data},
        {"strategy", config_.strategy},
        {"workers", config_.workers},
        {"servers", 0},
        {"steps", plan_.total_steps},
        {"batch_per_worker", plan_.batch},
        {"seed", config_.seed},
        {"reproducible", false},
        {"samples_per_second", static_cast<double>(samples_) / seconds},
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
  collectives::Communicator all_;
  observe::Trace trace_;
  std::shared_ptr<models::Model> model_;
  grad::Buckets buckets_;
  exchange::Updater updater_;
  std::unique_ptr<exchange::Exchange> exchange_;

  std::int64_t samples_ = 0;
  std::uint64_t exchanged_bytes_ = 0;  // by the exchange of gradients alone
  std::uint64_t other_bytes_ = 0;      // by evaluation and the like
  StepSeries series_;
  std::optional<Evaluation> evaluation_;
};

}  // namespace

nlohmann::json train(const Setup& setup, net::Transport& transport, observe::EventSink& sink) {
  Trainer trainer(setup, transport, sink);
  nlohmann::json summary = trainer.run();
  if (!summary.is_null()) {
    write_file_atomically(std::filesystem::path(setup.config.out) / "summary.json", summary.dump(2) + "\n");
  }
  return summary;
}

}  // namespace tutti::train
