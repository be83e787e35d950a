#include "config/settings.h"

#include <iterator>
#include <utility>

#include "config/emulation.h"

namespace tutti::config {
namespace {

using C = TrainConfig;

// Far above any run, far below what overflows.
constexpr double kMostSteps = 1e12;
constexpr double kMostEpochs = 1e6;
constexpr double kMostSamples = 1e9;

constexpr Range kNotNegative{.least = 0, .said_least = 0};

// What a run that is resumed may change. Data is compared by content, not by where it lies.
Setting changeable(Setting row) {
  row.on_resume = OnResume::may_change;
  return row;
}

// The same for a run with --reproducible, where no bit depends on it. Samples of a step are compared as such.
Setting reproducibly_changeable(Setting row) {
  row.on_resume = OnResume::may_change_if_reproducible;
  return row;
}

std::vector<Setting> all_changeable(std::vector<Setting> rows) {
  for (Setting& row : rows) row.on_resume = OnResume::may_change;
  return rows;
}

// A row is: key, member, check where there is one; help; spelling where it does not follow from the key.
// clang-format off

std::vector<Setting> network_settings() {
  return {
      {"model", &C::model,
       "network to train; `tutti models` lists them; your own: script:FILE (TorchScript) or plugin:FILE (a "
       "shared library)"},
      {"loss", &C::loss, "loss of a network of your own, computed from its scores: cross-entropy | mse | bce"},
      {"classes", &C::classes, kNotNegative,
       "number of classes; default: as many as the data has"},
      {"image_size", &C::image_size, kNotNegative,
       "side of the square, in pixels, that images are resized to; default: the network's own"},
      {"vocabulary", &C::vocabulary, kNotNegative,
       "words in a language model's vocabulary; default: as many as the data has"},
      {"inputs", &C::inputs, kNotNegative, "input features of a sample; default: as many as the data has"},
      {"embedding", &C::embedding, kNotNegative, "size of a language model's word embedding"},
      {"hidden", &C::hidden, kNotNegative,
       "hidden size of a language model's LSTM, or units of each hidden layer of mlp"},
      {"unroll", &C::unroll, kNotNegative, "steps that a language model is unrolled: words that a sample predicts"},
      {"sampled", &C::sampled, kNotNegative,
       "negative samples of a language model's sampled softmax: words that stand for all others in a training step"},
  };
}

std::vector<Setting> data_settings() {
  return {
      // $TUTTI_DATA is where data lies, not which.
      changeable({"data", &C::data,
                  "data set, or a file of your own, such as csv:FILE or images:FOLDER; `tutti data list` lists "
                  "them",
                  {.variable = "TUTTI_DATASET"}}),
      {"crop", &C::crop, "move each training image by up to 4 pixels each way, another way each epoch"},
      {"flip", &C::flip, "mirror every second training image"},
      {"cutout", &C::cutout, kNotNegative,
       "side of a square to blank in each training image; 0: none"},
  };
}

std::vector<Setting> own_data_settings() {
  return {
      {"label", &C::label, "label column of csv:FILE; default: the last"},
      {"features", &C::features,
       "feature columns of csv:FILE, separated by commas; default: all but the label"},
      {"test_share", &C::test_share, {.above = 0, .below = 1, .rule = "above 0 and below 1"},
       "fraction of csv:FILE, npy:X,Y or images:FOLDER (there of each class) that is held out for testing"},
      changeable({"test_data", &C::test_data,
                  "test FILE with the columns of csv:FILE (instead of --test-share)"}),
  };
}

std::vector<Setting> training_settings() {
  return {
      reproducibly_changeable({"strategy", &C::strategy,
       "how workers exchange gradients: ring, allreduce, ps-sync, ...; `tutti doctor` lists them"}),
      reproducibly_changeable({"workers", &C::workers, {.least = 1, .most = 1024}, "processes that compute gradients"}),
      changeable({"steps", &C::steps, {.least = 1, .most = kMostSteps, .or_zero = true, .said_least = 1},
                  "optimizer steps to train (instead of --epochs)"}),
      changeable({"epochs", &C::epochs, {.least = 1, .most = kMostEpochs, .or_zero = true, .said_least = 1},
                  "passes over the data; default 1"}),
      reproducibly_changeable({"batch", &C::batch, {.least = 1, .most = kMostSamples}, "samples that a worker computes at a time"}),
      {"accumulate", &C::accumulate,
       {.least = 1, .most = kMostSamples, .rule = "between 1 and 1000000000"},
       "micro-batches whose gradients are accumulated into one step"},
      reproducibly_changeable({"global_batch", &C::global_batch, {.least = 1, .or_zero = true, .said_least = 1},
       "samples a step of all workers together (instead of --batch)"}),
      {"seed", &C::seed, kNotNegative, "random seed of initial weights, shuffling and dropout"},
      {"reproducible", &C::reproducible,
       "the same bits at every number of workers, under every strategy that keeps step: a global batch is cut "
       "into --shards parts, whose gradients are added up in one order"},
      {"shards", &C::shards, {.least = 1, .most = 4096, .or_zero = true, .rule = "between 1 and 4096", .said_least = 1},
       "shards of a global batch, of --reproducible; default: the least power of two that is no less than the "
       "workers, at least 8"},
  };
}

// What becomes of gradients, whoever exchanges them.
std::vector<Setting> optimizer_settings() {
  return {
      {"optimizer", &C::optimizer,
       "sgd | momentum | nesterov | adam | adamw | adagrad | rmsprop | lars | lamb"},
      {"lr", &C::lr, {.above = 0, .rule = "a positive number"}, "learning rate"},
      {"momentum", &C::momentum, {.said_least = 0},
       "momentum coefficient of momentum, nesterov, lars and rmsprop; default 0.9, for rmsprop 0"},
      {"beta1", &C::beta1, {}, "decay rate of the first moment, of adam, adamw and lamb"},
      {"beta2", &C::beta2, {}, "decay rate of the second moment, of adam, adamw and lamb"},
      {"alpha", &C::alpha, {}, "smoothing constant of rmsprop's average of squared gradients"},
      {"trust", &C::trust, {}, "trust coefficient of lars"},
      {"epsilon", &C::epsilon, {},
       "term added to the denominator for numerical stability; below 0: the optimizer's default (1e-10 for "
       "adagrad, 1e-6 for lamb, else 1e-8)"},
      {"weight_decay", &C::weight_decay, {},
       "weight decay coefficient; below 0: the optimizer's default (0.01 for adamw and lamb, else 0)"},
      {"scale_lr", &C::scale_lr, "multiply the learning rate by workers and --accumulate, after a warm-up"},
      {"warmup_steps", &C::warmup_steps, {},
       "warm-up steps of --scale-lr; below 0: one epoch, at most a fifth of the run"},
      {"schedule", &C::schedule, {.words = {"constant", "step", "cosine"}},
       "learning rate schedule after the warm-up: constant | step (times --gamma every --step-size epochs) | "
       "cosine (falls to --min-lr)"},
      {"step_size", &C::step_size, {.least = 1, .most = kMostEpochs, .or_zero = true, .said_least = 1},
       "epochs between two decays, of --schedule step"},
      {"gamma", &C::gamma, {.above = 0, .most = 1, .rule = "above 0 and at most 1"},
       "factor of each learning rate decay, of --schedule step"},
      {"min_lr", &C::min_lr, {}, "final learning rate of --schedule cosine"},
      {"schedule_steps", &C::schedule_steps,
       {.least = 1, .most = kMostSteps, .or_zero = true, .rule = "at least 1", .said_least = 1},
       "steps until --schedule cosine reaches its end; default: the whole run"},
      {"label_smoothing", &C::label_smoothing, {.least = 0, .below = 1, .rule = "at least 0 and below 1"},
       "label smoothing of a classifier's training loss"},
      {"clip_norm", &C::clip_norm, {.least = 0, .rule = "a finite number, 0 or more"},
       "largest L2 norm of the gradient of all parameters together; 0: no clipping"},
      changeable({"on_nonfinite", &C::on_nonfinite, {.words = {"stop", "skip"}},
                  "what to do about a loss or gradient that is NaN or infinite: stop the run | skip the step"}),
  };
}

// Of single strategies.
std::vector<Setting> strategy_settings() {
  return {
      reproducibly_changeable({"servers", &C::servers,
       {.least = 1, .most = 1024, .or_zero = true, .rule = "between 1 and 1024", .said_least = 1},
       "processes that hold parameters, for ps-* and hybrid; default 1"}),
      changeable({"colocate", &C::colocate,
                  "a server in each worker's process instead of processes of their own"}),
      reproducibly_changeable({"server_role", &C::server_role, {.words = {"auto", "update", "sum"}},
       "what a server of ps-sync does: update the parameters | sum gradients, workers update | auto: update, "
       "unless lars, lamb or --clip-norm need more than a server has"}),
      {"backup_workers", &C::backup_workers, {},
       "workers, the last to push, that a step of ps-sync does not wait for"},
      {"staleness", &C::staleness, {.least = 0},
       "steps that a worker of ps-ssp may be ahead of the slowest"},
      {"damp_stale", &C::damp_stale, "divide the learning rate by a gradient's staleness (ps-async, ps-ssp)"},
      changeable({"local_aggregation", &C::local_aggregation,
                  "one push for all workers of a host, of ps-sync; by default where several workers share one of "
                  "several hosts, unless --backup-workers, --on-nonfinite skip, --engine mpi or gloo, or an embedding's "
                  "rows forbid it"}),
      changeable({"no_local_aggregation", &C::no_local_aggregation,
                  "one push for every worker, of ps-sync, also where several share a host"}),
      reproducibly_changeable({"no_sparse", &C::no_sparse,
       "dense gradients of embedding tables, of ps-* and hybrid, instead of the rows that a batch has read"}),
      changeable({"measure_links", &C::measure_links,
                  "measure the links to decide which way each embedding table of hybrid goes; two runs may then differ"}),
      reproducibly_changeable({"partitions", &C::partitions,
       "partitions of each embedding table: a number | auto (times a few early in the run); default one a "
       "server"}),
      {"sync_every", &C::sync_every, {.least = 1}, "steps between synchronisations of easgd and local-sgd"},
      {"moving_rate", &C::moving_rate, {.least = 0, .below = 1, .rule = "between 0 (choose) and 1"},
       "moving rate of easgd towards the centre and back; 0: 0.9 / workers"},
  };
}

// Several machines.
std::vector<Setting> host_settings() {
  return all_changeable({
      {"hosts", &C::hosts,
       "hosts and the workers that are started on each over ssh, as host1:4,host2:4; without --workers as many "
       "as there are",
       {.letter = 'H'}},
      {"hostfile", &C::hostfile, "a file with a host a line, HOST:N or HOST slots=N max_slots=M (instead of --hosts)"},
      {"ssh_config", &C::ssh_config, "a configuration file for ssh, instead of the user's own"},
      {"remote_program", &C::remote_program,
       "the path of tutti on the other hosts; default where this one is"},
  });
}

// Processes that others start, and where ranks listen.
std::vector<Setting> joining_settings() {
  return all_changeable({
      {"interface", &C::interface,
       "network interface that ranks listen on, by name, address or network (10.0.0.0/24); default: loopback "
       "where all are on one host, else the address by which other hosts know this one"},
      {"port_range", &C::port_range, "ports that ranks listen on, FIRST-LAST; default: any that is free"},
      {"cluster", &C::cluster,
       "a file like TensorFlow's TF_CONFIG with the chief, workers and ps of a job that others start"},
      {"task", &C::task, "task of this process in --cluster, e.g. worker:1; default: what the file says"},
      {"port", &C::port, {.least = 1, .most = 65535, .or_zero = true, .rule = "between 1 and 65535"},
       "port at which rank 0 waits for the others, where another launcher has started them; default: what that says"},
      {"secret_file", &C::secret_file,
       "a file of mode 0600 with a secret that these processes share; needed on several hosts without MPI or PMI"},
      {"join_timeout_s", &C::join_timeout_s, {.above = 0, .most = 86400, .rule = "between 0 and 86400 seconds"},
       "seconds until a process of such a job that has not come is given up",
       {.flag = "join-timeout"}},
  });
}

// Machines that are not there.
std::vector<Setting> emulation_settings() {
  return {
      {"pace_ms", &C::pace_ms, {.least = 0, .most = 3.6e6, .rule = "between 0 and 3600000 ms"},
       "milliseconds to wait instead of computing, to measure exchanges alone",
       {.flag = "pace"}},
      changeable({"device_tflops", &C::device_tflops, {.least = 0, .rule = "a finite number, 0 or more"},
                  "TFLOP/s of a device whose pace a step keeps: 3 times the forward pass "
                  "of a batch (instead of --pace)"}),
      changeable({"slow", &C::slow,
                  "RANK:FACTOR, such as 1:2.5, makes one worker slower: it waits in each step until computing has "
                  "taken FACTOR (1 or more) times as long"}),
      changeable({"flip_bit", &C::flip_bit,
                  "RANK:STEP:TENSOR:ELEMENT:BIT flips one bit of a gradient on that worker in that step, for tests "
                  "of what finds it; :gradient behind it does so before the exchange, :mean (the default) after "
                  "it"}),
      changeable({"emulate", &C::emulate, kEmulateHelp}),
  };
}

// How it is computed and sent, here.
std::vector<Setting> machine_settings() {
  return {
      {"sync_batchnorm", &C::sync_batchnorm,
       "normalise by the mean and variance over all workers' samples (needs a strategy that keeps step)"},
      changeable({"device", &C::device,
                  {.words = {"cpu"}, .rule = "cpu (this build trains on nothing else)"}, "device to compute on: cpu"}),
      {"precision", &C::precision, {.words = {"fp32", "bf16"}},
       "precision of the forward pass in training: fp32 | bf16 (matrix products and convolutions; parameters and gradients "
       "stay fp32)"},
      reproducibly_changeable({"transport", &C::transport, {.words = {"auto", "shm", "tcp", "mpi"}},
                               "transport of messages: auto | shm | tcp | mpi (MPI carries the messages of what mpirun has started)"}),
      changeable({"wire", &C::wire, {.words = {"auto", "auth", "encrypt", "plain"}}, kWireHelp}),
      changeable({"engine", &C::engine,
                  "who carries out collectives: auto (native), or one of those that `tutti doctor` lists"}),
      reproducibly_changeable({"algorithm", &C::algorithm,
       "all-reduce algorithm of the strategy allreduce: auto, or one of those that `tutti doctor` lists"}),
      {"memory_format", &C::memory_format, {.words = {"auto", "contiguous", "channels-last"}},
       "memory format of images: auto | contiguous | channels-last"},
      {"bucket_bytes", &C::bucket_bytes, {.least = 1},
       "size of gradient buckets, about, e.g. 1M",
       {.bytes = true}},
      reproducibly_changeable({"no_overlap", &C::no_overlap,
       "exchange dense gradients after the backward pass instead of during it"}),
      {"threads", &C::threads, {.least = 0, .most = 1024, .rule = "between 0 (choose) and 1024"},
       "threads a worker computes with; 0: its share of the cores"},
      changeable({"timeout_s", &C::timeout_s,
                  {.above = 0, .most = 86400, .rule = "between 0 and 86400 seconds"},
                  "seconds until a worker that lives but makes no progress ends the run",
                  {.flag = "timeout"}}),
      changeable({"heartbeat_timeout_s", &C::heartbeat_timeout_s,
                  {.least = 1,
                   .most = 86400,
                   .or_zero = true,
                   .rule = "0 (none) or between 1 and 86400 seconds"},
                  "seconds until a process that shows no life is lost; 0: none shows any (for debuggers), and "
                  "one is lost only when it ends",
                  {.flag = "heartbeat-timeout"}}),
  };
}

// What is measured and kept.
std::vector<Setting> outcome_settings() {
  return all_changeable({
      {"no_evaluate", &C::no_evaluate, "do not evaluate on the test part"},
      {"evaluate_every", &C::evaluate_every, {.least = 1, .or_zero = true, .said_least = 0},
       "steps between evaluations; 0: after each epoch and at the end"},
      {"until", &C::until,
       "target that ends the run when an evaluation reaches it, FIGURE=VALUE: accuracy, top5, auc, or, from above, loss, "
       "perplexity"},
      {"tensorboard", &C::tensorboard, "write tensorboard/ for TensorBoard into the run folder"},
      {"trace", &C::trace, "write trace.json, for Perfetto or chrome://tracing"},
      {"checkpoint_every", &C::checkpoint_every, {.least = 1, .or_zero = true},
       "steps between checkpoints; 0: after each epoch and at the end"},
      {"no_checkpoint", &C::no_checkpoint, "save no checkpoint, not even at the end"},
      {"check_replicas", &C::check_replicas, {.least = 1, .or_zero = true, .said_least = 0},
       "steps between comparisons of digests of the workers' parameters, with --reproducible also of running "
       "statistics: where they differ the run ends with 1, before it saves anything, and names the step, the tensor "
       "and the ranks in the minority; 0: never (the summary has a digest of each replica either way)"},
      {"record_digests", &C::record_digests,
       "write record/, digests of each step's gradients, means and parameters on every worker (for `tutti "
       "bisect`)"},
      {"record_step", &C::record_step, {.least = 1, .or_zero = true, .said_least = 0},
       "write record/step-N, all of that step's gradients, means and parameters on every worker; 0: none"},
      {"out", &C::out, "run folder; default runs/<model>-<strategy>-<time>"},
      {"resume", &C::resume,
       "run folder whose newest whole checkpoint to go on from, or one of its checkpoints/step-N | auto: go "
       "on in --out if there is something, begin if not"},
      {"overwrite", &C::overwrite,
       "remove from --out what an earlier run left there; files of others are never touched"},
      {"restarts", &C::restarts,
       {.least = 0, .most = 1000, .rule = "between 0 and 1000", .said_least = 0},
       "times that a run which fails is started again from its last checkpoint, after pauses of 1 to 30 "
       "seconds"},
  });
}

// clang-format on

struct Section {
  std::string_view title;
  std::vector<Setting> (*rows)();
};

// In the order of Group.
constexpr Section kSections[] = {
    {"Network", network_settings},
    {"Data", data_settings},
    {"Your own data", own_data_settings},
    {"Training", training_settings},
    {"Optimizer", optimizer_settings},
    {"Single strategies", strategy_settings},
    {"Several hosts", host_settings},
    {"Joining", joining_settings},
    {"Emulated machines", emulation_settings},
    {"This machine", machine_settings},
    {"Outcome", outcome_settings},
};

}  // namespace

std::string_view title_of(Group group) {
  return kSections[static_cast<std::size_t>(group)].title;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> kTable = [] {
    std::vector<Setting> all;
    for (std::size_t i = 0; i < std::size(kSections); ++i) {
      for (Setting& row : kSections[i].rows()) {
        row.group = static_cast<Group>(i);
        all.push_back(std::move(row));
      }
    }
    return all;
  }();
  return kTable;
}

}  // namespace tutti::config
