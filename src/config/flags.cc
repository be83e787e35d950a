#include "config/flags.h"

#include <algorithm>
#include <filesystem>

#include "base/bytes.h"
#include "base/error.h"
#include "config/emulation.h"

namespace tutti::config {
namespace {

// --some-flag is TUTTI_SOME_FLAG in the environment.
std::string variable_of(std::string flag) {
  std::ranges::replace(flag, '-', '_');
  std::ranges::transform(flag, flag.begin(), [](unsigned char c) { return std::toupper(c); });
  return "TUTTI_" + flag;
}

template <typename T>
CLI::Option* add(CLI::App& app, const std::string& flag, T& field, const std::string& help) {
  return app.add_option("--" + flag, field, help)->capture_default_str()->envname(variable_of(flag));
}

// 0 stands for "not said" in the struct; who says it means something else.
std::string at_least_one(const std::string& text) {
  return text.find_first_of("123456789") != std::string::npos && text.front() != '-'
             ? ""
             : fmt::format("must be at least 1, not {}", text);
}

std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? fmt::format("must be at least 0, not {}", text) : "";
}

void add_switch(CLI::App& app, const std::string& flag, bool& field, const std::string& help) {
  app.add_flag("--" + flag, field, help)->envname(variable_of(flag));
}

// What becomes of gradients, whoever exchanges them.
void add_recipe_flags(CLI::App& app, TrainConfig& c) {
  add(app, "optimizer", c.optimizer,
      "sgd | momentum | nesterov | adam | adamw | adagrad | rmsprop | lars | lamb");
  add(app, "lr", c.lr, "learning rate");
  add(app, "momentum", c.momentum, "of momentum, nesterov, lars and rmsprop; default 0.9, for rmsprop 0")
      ->check(not_negative, "");
  add(app, "beta1", c.beta1, "of adam, adamw and lamb");
  add(app, "beta2", c.beta2, "of adam, adamw and lamb");
  add(app, "alpha", c.alpha, "of rmsprop: how slowly its average of squares moves");
  add(app, "trust", c.trust, "of lars: what a step may change of a layer, as a part of its norm");
  add(app, "epsilon", c.epsilon,
      "below 0: the optimizer's default (1e-10 for adagrad, 1e-6 for lamb, else 1e-8)");
  add(app, "weight-decay", c.weight_decay,
      "below 0: the optimizer's default (0.01 for adamw and lamb, else 0)");
  add_switch(app, "scale-lr", c.scale_lr,
             "multiply the learning rate by workers and --accumulate, after a warm-up");
  add(app, "warmup-steps", c.warmup_steps, "of --scale-lr; below 0: one epoch, at most a fifth of the run");
  add(app, "schedule", c.schedule,
      "of the learning rate, after the warm-up: constant | step (times --gamma every --step-size epochs) | "
      "cosine (falls to --min-lr)");
  add(app, "step-size", c.step_size, "epochs between drops, of --schedule step")->check(at_least_one, "");
  add(app, "gamma", c.gamma, "what a drop leaves of the learning rate, of --schedule step");
  add(app, "min-lr", c.min_lr, "where --schedule cosine ends");
  add(app, "schedule-steps", c.schedule_steps,
      "steps until --schedule cosine has ended; default: the whole run")
      ->check(at_least_one, "");
  add(app, "label-smoothing", c.label_smoothing,
      "part of a label that a classifier's training loss gives to all classes alike");
  add(app, "clip-norm", c.clip_norm,
      "how long the gradient of all parameters together may be; 0: as long as it is");
  add(app, "on-nonfinite", c.on_nonfinite,
      "what to do about a loss or gradient that is NaN or infinite: stop the run | skip the step");
}

// What learns, and from what.
void add_network_flags(CLI::App& app, TrainConfig& c) {
  add(app, "model", c.model,
      "network to train; `tutti models` lists them; your own: script:FILE (TorchScript) or plugin:FILE (a "
      "shared library)");
  add(app, "loss", c.loss, "of the scores that a network of your own gives: cross-entropy | mse | bce");
  // $TUTTI_DATA is where data lies, not which.
  add(app, "data", c.data,
      "data set, or a file of your own, such as csv:FILE or images:FOLDER; `tutti data list` lists them")
      ->envname("TUTTI_DATASET");
  add_own_data_flags(app, c);
  add_switch(app, "crop", c.crop,
             "move each training image by up to 4 pixels each way, another way each epoch");
  add_switch(app, "flip", c.flip, "mirror every second training image");
  add(app, "cutout", c.cutout, "side of a square to blank in each training image; 0: none")
      ->check(not_negative, "");
  add(app, "classes", c.classes, "that the network tells apart; default: as many as the data has")
      ->check(not_negative, "");
  add(app, "image-size", c.image_size, "that images are brought to; default: the network's own")
      ->check(not_negative, "");
  add(app, "vocabulary", c.vocabulary, "words of a language model; default: as many as the data has")
      ->check(not_negative, "");
  add(app, "inputs", c.inputs, "numbers of a sample; default: as many as the data has")
      ->check(not_negative, "");
  add(app, "embedding", c.embedding, "numbers a word, of a language model")->check(not_negative, "");
  add(app, "hidden", c.hidden, "cells of a language model's LSTM, or of each hidden layer of mlp")
      ->check(not_negative, "");
  add(app, "unroll", c.unroll, "words that a language model's sample predicts")->check(not_negative, "");
  add(app, "sampled", c.sampled, "words that stand for all others in a language model's training step")
      ->check(not_negative, "");
}

// Of single strategies.
void add_strategy_flags(CLI::App& app, TrainConfig& c) {
  add(app, "servers", c.servers, "processes that hold parameters, for ps-* and hybrid; default 1")
      ->check(at_least_one, "");
  add_switch(app, "colocate", c.colocate,
             "a server in each worker's process instead of processes of their own");
  add(app, "server-role", c.server_role,
      "of ps-sync: update the parameters | sum gradients, workers update | auto: "
      "update, unless lars, lamb or --clip-norm need more than a server has");
  add(app, "backup-workers", c.backup_workers,
      "of ps-sync: a step does not wait for the last so many workers");
  add(app, "staleness", c.staleness, "of ps-ssp: steps that a worker may be ahead of the slowest");
  add_switch(app, "damp-stale", c.damp_stale,
             "divide the learning rate by a gradient's staleness (ps-async, ps-ssp)");
  add_switch(app, "local-aggregation", c.local_aggregation, "of ps-sync: one push for all workers of a host");
  add_switch(app, "no-sparse", c.no_sparse, "of ps-* and hybrid: embedding tables travel whole, not by rows");
  add_switch(app, "measure-links", c.measure_links,
             "of hybrid: time the links to decide which way each table goes; two runs may then differ");
  add_switch(app, "no-overlap", c.no_overlap,
             "dense gradients leave after the backward pass instead of during it");
  add(app, "partitions", c.partitions,
      "that embedding tables are cut into: a number | auto (times a few early in the run); default one a "
      "server");
  add(app, "sync-every", c.sync_every, "steps between meetings of easgd and local-sgd");
  add(app, "moving-rate", c.moving_rate, "of easgd, towards the centre and back; 0: 0.9 / workers");
}

// How it is computed and sent, here.
void add_machine_flags(CLI::App& app, TrainConfig& c) {
  add(app, "pace", c.pace_ms, "milliseconds to wait instead of computing, to measure exchanges alone");
  add(app, "device-tflops", c.device_tflops,
      "pace of a device that computes so many 10^12 operations a second: 3 times the forward pass of a "
      "batch (instead of --pace)");
  add(app, "slow", c.slow, "RANK:FACTOR makes one worker so many times slower");
  add(app, "emulate", c.emulate, kEmulateHelp);
  add_switch(
      app, "sync-batchnorm", c.sync_batchnorm,
      "normalise by the mean and variance over all workers' samples (needs a strategy that keeps step)");
  add(app, "device", c.device, "cpu");
  add(app, "precision", c.precision,
      "of the forward pass in training: fp32 | bf16 (products and convolutions; parameters and gradients "
      "stay fp32)");
  add(app, "transport", c.transport, "auto | shm | tcp");
  add(app, "algorithm", c.algorithm, "of allreduce: auto, or one of those that `tutti doctor` lists");
  add(app, "memory-format", c.memory_format, "auto | contiguous | channels-last");
  app.add_option_function<std::string>(
         "--bucket-bytes", [&c](const std::string& text) { c.bucket_bytes = parse_bytes(text); },
         "gradients leave in pieces of about this size, e.g. 1M")
      ->default_str("1M")
      ->envname("TUTTI_BUCKET_BYTES");
  add(app, "threads", c.threads, "threads a worker computes with; 0: its share of the cores");
  add(app, "timeout", c.timeout_s, "seconds until a worker that lives but makes no progress ends the run");
  add(app, "heartbeat-timeout", c.heartbeat_timeout_s,
      "seconds until a process that shows no life is lost; 0: none shows any (for debuggers), and one is "
      "lost only "
      "when it ends");
}

// What is measured and kept.
void add_outcome_flags(CLI::App& app, TrainConfig& c) {
  add_switch(app, "no-evaluate", c.no_evaluate, "do not evaluate on the test part");
  add(app, "evaluate-every", c.evaluate_every,
      "steps between evaluations; 0: after each epoch and at the end")
      ->check(not_negative, "");
  add(app, "until", c.until,
      "FIGURE=VALUE ends the run when an evaluation reaches it: accuracy, top5, auc, or, from above, loss, "
      "perplexity");
  add_switch(app, "tensorboard", c.tensorboard, "write tensorboard/ for TensorBoard into the run folder");
  add_switch(app, "trace", c.trace, "write trace.json, for Perfetto or chrome://tracing");
  add(app, "checkpoint-every", c.checkpoint_every,
      "steps between checkpoints; 0: after each epoch and at the end");
  add_switch(app, "no-checkpoint", c.no_checkpoint, "save no checkpoint, not even at the end");
  add(app, "out", c.out, "run folder; default runs/<model>-<strategy>-<time>");
  add(app, "resume", c.resume,
      "run folder whose newest whole checkpoint to go on from, or one of its checkpoints/step-N | auto: go "
      "on "
      "in --out if there is something, begin if not");
  add_switch(app, "overwrite", c.overwrite,
             "remove from --out what an earlier run left there; files of others are never touched");
  add(app, "restarts", c.restarts,
      "times that a run which fails is started again from its last checkpoint, after pauses of 1 to 30 "
      "seconds")
      ->check(not_negative, "");
}

}  // namespace

void add_own_data_flags(CLI::App& app, TrainConfig& config) {
  add(app, "label", config.label, "column of csv:FILE that is to be learned; default: the last");
  add(app, "features", config.features,
      "columns of csv:FILE to learn it from, with commas between; default: all others");
  add(app, "test-share", config.test_share,
      "part of csv:FILE, npy:X,Y or images:FOLDER (there of each class) that is kept for tests");
  add(app, "test-data", config.test_data, "FILE like that of csv:FILE, for tests (instead of --test-share)");
}

void add_train_flags(CLI::App& command, TrainConfig& config) {
  CLI::App& app = command;
  TrainConfig& c = config;
  add_network_flags(app, c);
  add(app, "strategy", c.strategy,
      "how workers exchange gradients: ring, allreduce, ps-sync, ...; `tutti doctor` lists them");
  add(app, "workers", c.workers, "processes that compute gradients");
  add(app, "steps", c.steps, "optimizer steps to train (instead of --epochs)")->check(at_least_one, "");
  add(app, "epochs", c.epochs, "passes over the data; default 1")->check(at_least_one, "");
  auto* batch = add(app, "batch", c.batch, "samples that a worker computes at a time");
  add(app, "accumulate", c.accumulate, "batches whose gradients make one step");
  add(app, "global-batch", c.global_batch, "samples a step of all workers together (instead of --batch)")
      ->check(at_least_one, "")
      ->excludes(batch);
  add_recipe_flags(app, c);
  add(app, "seed", c.seed, "of initial weights, shuffling and dropout")->check(not_negative, "");
  add_strategy_flags(app, c);
  add_machine_flags(app, c);
  add_outcome_flags(app, c);
}

void apply_config_file(CLI::App& command, const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw ConfigError(fmt::format("--config {}: no such file", path));
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const CLI::Error& e) {
    throw ConfigError(fmt::format("--config {}: {}", path, e.what()));
  }
  for (const CLI::ConfigItem& item : items) {
    if (!item.parents.empty()) {
      throw ConfigError(fmt::format("--config {}: section [{}]: flags stand at the top, without sections",
                                    path, item.parents.front()));
    }
    CLI::Option* option = command.get_option_no_throw("--" + item.name);
    if (option == nullptr) throw ConfigError(fmt::format("--config {}: unknown key '{}'", path, item.name));
    if (option->count() > 0) continue;
    try {
      option->add_result(item.inputs);
      option->run_callback();
    } catch (const std::exception& e) {
      throw ConfigError(fmt::format("--config {}: {}: {}", path, item.name, e.what()));
    }
  }
}

}  // namespace tutti::config
