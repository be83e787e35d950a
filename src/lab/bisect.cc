#include "lab/bisect.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/shard_tree.h"
#include "base/xxh64.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/diff.h"
#include "config/settings.h"
#include "engines/engines.h"
#include "exchange/strategy.h"
#include "observe/summary.h"
#include "train/run_folder.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;

// What only processes that mpirun has started can use, as a transport.
constexpr std::string_view kOverMpi = "mpi";

// One of the two.
struct Run {
  std::string name;  // "A"
  fs::path folder;
  config::TrainConfig config;
  std::vector<std::int64_t> steps;          // that it has checkpoints of, rising
  std::optional<observe::Summary> summary;  // none: it has not come to its end

  fs::path checkpoint(std::int64_t step) const { return checkpoint::step_folder(folder, step); }
};

Run open_run(const std::string& name, const fs::path& folder) {
  Run run{
      .name = name, .folder = folder, .config = train::config_in_marker(folder), .steps = {}, .summary = {}};
  const auto& strategy = exchange::find_strategy(run.config.strategy);
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("{}: {}", folder.string(), why));
  };
  if (strategy.asynchronous || run.config.backup_workers > 0)
    refuse(fmt::format("workers of --strategy {}{} do not keep step, so no run of it repeats another",
                       run.config.strategy, run.config.backup_workers > 0 ? " with --backup-workers" : ""));
  const auto& engine = engines::engine_named(run.config.engine);
  if (engine.needs_mpirun && !run.config.reproducible)
    refuse(fmt::format(
        "--engine {} adds up as MPI does, in processes that mpirun starts; only with --reproducible are "
        "its sums those of --engine {}, which can be made again here",
        engine.name, engines::find_engine("auto").name));
  if (run.config.pace_ms > 0) refuse("a run with --pace computes nothing that could differ");
  for (const auto& saved : checkpoint::list(folder)) run.steps.push_back(saved.step);
  if (fs::exists(folder / observe::kSummaryFile)) run.summary = observe::read_summary(folder);
  return run;
}

std::vector<std::string> differing_settings(const config::TrainConfig& a, const config::TrainConfig& b) {
  std::vector<std::string> list;
  for (const auto& setting : config::settings()) {
    if (setting.group == config::Group::outcome || setting.group == config::Group::joining) continue;
    const auto x = text_of(setting, a);
    const auto y = text_of(setting, b);
    if (x != y)
      list.push_back(
          fmt::format("{}: {} against {}", setting.key, x.empty() ? "none" : x, y.empty() ? "none" : y));
  }
  return list;
}

// Throws ConfigError if the two are no checkpoints of the same model.
checkpoint::Diff diff_of(const fs::path& a, const fs::path& b) {
  const auto x = checkpoint::load(a);
  const auto y = checkpoint::load(b);
  for (const auto& tensor : checkpoint::diff(x.model.tensors(), y.model.tensors()).tensors) {
    using checkpoint::Difference;
    if (tensor.difference == Difference::none || tensor.difference == Difference::values) continue;
    throw ConfigError(
        fmt::format("{} and {} are of different models: tensor {} is not in both, or of another shape",
                    a.string(), b.string(), checkpoint::printable(tensor.name)));
  }
  return checkpoint::diff(x, y);
}

// With what each computed a checkpoint, where that is not the same.
std::vector<std::string> differing_arithmetic(const fs::path& a, const fs::path& b) {
  std::vector<std::string> list;
  for (const auto& [what, first, second] : diff_of(a, b).arithmetic)
    list.push_back(fmt::format("{}: {} against {}", what, first, second));
  return list;
}

bool same_state(const Run& a, const Run& b, std::int64_t step) {
  const auto x = a.checkpoint(step);
  const auto y = b.checkpoint(step);
  if (!diff_of(x, y).identical()) return false;
  for (int r = 1; r < std::min(a.config.workers, b.config.workers); ++r) {
    const auto mine = checkpoint::load_replica(x, r);
    const auto theirs = checkpoint::load_replica(y, r);
    if (mine && theirs && !checkpoint::diff(mine->tensors(), theirs->tensors()).identical()) return false;
  }
  return true;
}

config::TrainConfig config_in(const fs::path& checkpoint) {
  return checkpoint::load(checkpoint).meta.at("config").get<config::TrainConfig>();
}

// "rank 1", "ranks 0, 2"
std::string ranks_in_words(const auto& numbers) {
  return fmt::format("rank{} {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

// Which ranks of a run have these shards.
std::string ranks_with(const std::vector<int>& shards, const config::TrainConfig& run) {
  const ShardTree tree(run.shards);
  std::set<int> ranks;
  for (int r = 0; r < run.workers; ++r) {
    const ShardRun own = tree.run_of(r, run.workers);
    if (std::ranges::any_of(shards, [&](int s) { return own.first <= s && s < own.last; })) ranks.insert(r);
  }
  return ranks_in_words(ranks);
}

// ", computed by rank 0 in A and rank 1 in B" where shards are named.
std::string computed_by(const std::vector<std::string>& who, const config::TrainConfig& a,
                        const config::TrainConfig& b) {
  constexpr std::string_view kShard = "shard-";
  if (a.shards < 1 || b.shards < 1) return "";
  std::vector<int> shards;
  for (const std::string& unit : who) {
    if (!unit.starts_with(kShard)) return "";
    shards.push_back(std::stoi(unit.substr(kShard.size())));
  }
  return fmt::format(", computed by {} in A and {} in B", ranks_with(shards, a), ranks_with(shards, b));
}

// "rank 1", "ranks 0, 2", "every rank"
std::string in_words(const std::vector<std::string>& who, int workers) {
  constexpr std::string_view kRank = "rank-";
  std::vector<std::string> numbers;
  for (const std::string& unit : who) {
    if (!unit.starts_with(kRank)) return fmt::format("{}", fmt::join(who, ", "));
    numbers.push_back(unit.substr(kRank.size()));
  }
  if (workers > 1 && static_cast<int>(numbers.size()) >= workers) return "every rank";
  return ranks_in_words(numbers);
}

// Which side of the exchange, and whose.
std::string side_of(const Place& place, const config::TrainConfig& a, const config::TrainConfig& b) {
  const std::string whose =
      in_words(place.who, std::max(a.workers, b.workers)) + computed_by(place.who, a, b);
  const std::string before =
      place.gradients_known
          ? "gradients before the exchange agree"
          : fmt::format("gradients before the exchange cannot be compared: {} workers against {}", a.workers,
                        b.workers);
  if (place.begins_so) return "the parameters that the runs begin with, on " + whose;
  if (place.stage == "gradient") return "the gradient before the exchange, of " + whose;
  if (place.stage == "buffer") return "what the forward pass keeps beside the parameters, on " + whose;
  if (place.stage == "mean") {
    return fmt::format("the mean of the gradients after the exchange, on {}; {}", whose, before);
  }
  if (place.means_known) return fmt::format("the update, on {}; the mean of the gradients agrees", whose);
  const auto& strategy = exchange::find_strategy(a.strategy);
  const bool servers = strategy.servers || exchange::find_strategy(b.strategy).servers;
  const char* what = servers                    ? "the sum or the update at the servers"
                     : strategy.replicas_differ ? "the update or the synchronisation"
                                                : "the update";
  return fmt::format("{}, seen on {}; {}", what, whose, before);
}

class Search {
 public:
  Search(Run a, Run b, const Replays& replays) : a_(std::move(a)), b_(std::move(b)), replays_(replays) {
    result_.settings = differing_settings(a_.config, b_.config);
    std::ranges::set_intersection(a_.steps, b_.steps, std::back_inserter(common_));
  }

  Bisection run() {
    compare_checkpoints();
    if (!last_) {
      result_.identical = true;
      return result_;
    }
    // From the nearest checkpoint, then from twice as far back each time, at last from the beginning. Where a
    // run only ended early there need be nothing to find.
    for (std::size_t back = 1; !result_.place && !(ended_early_ && back > 2); back *= 2) {
      const bool from_start = back > equal_.size();
      const std::int64_t base = from_start ? 0 : equal_[equal_.size() - back];
      if (base < *last_) replay_from(base);
      if (result_.place && base < result_.equal_until) {
        result_.remark = fmt::format(
            "checkpoints hold rank 0's parameters, which agree until step {}: until then only another "
            "replica "
            "was different",
            result_.equal_until);
      }
      if (from_start) break;
    }
    if (!result_.place && ended_early_) {
      result_.identical = true;
      result_.remark =
          fmt::format("{} did not come to its end; made again up to step {}, it agrees with the other",
                      a_.summary ? "B" : "A", *last_);
    } else if (!result_.place) {
      tell_what_does_not_repeat();
    }
    return result_;
  }

 private:
  void compare_checkpoints() {
    for (const std::int64_t step : common_) {
      if (!same_state(a_, b_, step)) {
        result_.differ_from = last_ = step;
        result_.arithmetic = differing_arithmetic(a_.checkpoint(step), b_.checkpoint(step));
        break;
      }
      equal_.push_back(step);
      result_.equal_until = step;
    }
    if (last_) return;
    if (common_.empty()) {
      throw ConfigError(fmt::format("{} and {} have no checkpoint of the same step (steps {} and {})",
                                    a_.folder.string(), b_.folder.string(), steps_text(a_), steps_text(b_)));
    }
    if (a_.summary && b_.summary && replicas_of(a_) != replicas_of(b_) &&
        a_.summary->steps == b_.summary->steps) {
      last_ = a_.summary->steps;
      return;
    }
    // A run that did not come to its end is made again as far as the other one has come.
    for (const auto& [unfinished, other] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) {
      const auto next = std::ranges::upper_bound(other->steps, result_.equal_until);
      if (unfinished->summary || next == other->steps.end()) continue;
      last_ = *next;
      ended_early_ = true;
    }
  }

  static std::string steps_text(const Run& run) {
    return run.steps.empty() ? "none" : fmt::format("{}", fmt::join(run.steps, ", "));
  }
  static std::set<std::string> replicas_of(const Run& run) {
    return {run.summary->replicas_sha256.begin(), run.summary->replicas_sha256.end()};
  }

  // As the run was when it made the step that differs.
  config::TrainConfig config_of(const Run& run) const {
    const bool saved = std::ranges::binary_search(run.steps, *last_);
    return saved ? config_in(run.checkpoint(*last_)) : run.config;
  }

  // With what kernels it did that, as its checkpoint says; none: it says nothing.
  std::optional<std::vector<std::string>> kernels_of(const Run& run) const {
    const bool saved = std::ranges::binary_search(run.steps, *last_);
    const auto meta = checkpoint::load(run.checkpoint(saved ? *last_ : run.steps.back())).meta;
    const auto arithmetic = meta.value("arithmetic", nlohmann::json::object());
    if (!arithmetic.contains("kernels")) return std::nullopt;
    return arithmetic["kernels"].get<std::vector<std::string>>();
  }

  struct Pair {
    fs::path a, b;
    std::optional<Place> place;
  };
  Pair replay(std::int64_t base, std::int64_t last, std::int64_t whole) {
    Pair pair;
    std::string failure;
    for (const Run* run : {&a_, &b_}) {
      const auto out = replays_.scratch / fmt::format("{}-{}", run->name, ++folders_);
      (run == &a_ ? pair.a : pair.b) = out;
      auto config = replay_of(config_of(*run), base > 0 ? run->checkpoint(base) : fs::path(), last, out);
      config.record_digests = true;
      config.record_step = whole;
      replays_.say(fmt::format("{} again, from {} to step {}", run->name,
                               base > 0 ? fmt::format("step {}", base) : "the beginning", last));
      if (const auto why = replays_.train(config, kernels_of(*run)); !why.empty())
        failure = fmt::format("{}: {}", run->name, why);
    }
    pair.place = first_difference(read_records(pair.a, config_of(a_).workers),
                                  read_records(pair.b, config_of(b_).workers));
    if (!failure.empty() && !pair.place) throw RunError(fmt::format("cannot be made again: {}", failure));
    return pair;
  }

  void replay_from(std::int64_t base) {
    auto pair = replay(base, *last_, base + 1);
    last_pair_ = pair;
    if (!pair.place) return;
    const std::int64_t step = pair.place->step;
    if (step > base + 1) {
      pair = replay(base, step, step);
      if (!pair.place || pair.place->step != step) {
        throw RunError(fmt::format(
            "the runs do not repeat themselves: they differed first in step {}, and made again {}", step,
            pair.place ? fmt::format("in step {}", pair.place->step) : "not at all"));
      }
    }
    result_.place = pair.place;
    const auto a = config_of(a_);
    const auto b = config_of(b_);
    result_.element = first_element(pair.a, pair.b, *pair.place, a.workers, b.workers);
    result_.side = side_of(*pair.place, a, b);
  }

  // Whether the last replay has ended with the parameters that the run itself has saved.
  bool repeats(const Run& run, const fs::path& replayed) const {
    const auto saved = checkpoint::load(run.checkpoint(*last_));
    const auto records = read_records(replayed, 1);
    const auto line = std::ranges::find(records[0], *last_, &RecordedStep::step);
    if (line == records[0].end()) return false;
    constexpr std::string_view kParameter = "parameter/";
    return std::ranges::all_of(line->digests, [&](const auto& entry) {
      if (!entry.first.starts_with(kParameter)) return true;
      const auto* tensor = saved.model.find(entry.first.substr(kParameter.size()));
      return tensor != nullptr && hex64(xxh64(tensor->bytes)) == entry.second;
    });
  }

  void tell_what_does_not_repeat() {
    result_.side = "known from what was saved alone: made again from the beginning, the two agree";
    if (!result_.differ_from) {
      result_.remark = "summary.json has other digests of replicas, though rank 0's are the same";
      return;
    }
    const auto x = checkpoint::load(a_.checkpoint(*last_));
    const auto y = checkpoint::load(b_.checkpoint(*last_));
    for (const auto& tensor : checkpoint::diff(x, y).tensors) {
      if (tensor.difference != checkpoint::Difference::values) continue;
      result_.place = Place{.step = *last_, .stage = "checkpoint", .tensor = tensor.name, .who = {"rank-0"}};
      if (const auto* mine = x.model.find(tensor.name))
        result_.element = first_element(*mine, y.model.at(tensor.name));
      break;
    }
    const bool a_repeats = repeats(a_, last_pair_->a);
    const bool b_repeats = repeats(b_, last_pair_->b);
    if (a_repeats != b_repeats) {
      result_.remark =
          fmt::format("they end as {} did: {} was disturbed by something that its settings do not say",
                      a_repeats ? "A" : "B", a_repeats ? "B" : "A");
    }
  }

  const Run a_;
  const Run b_;
  const Replays& replays_;
  std::vector<std::int64_t> common_;
  std::vector<std::int64_t> equal_;
  std::optional<std::int64_t> last_;  // replays end with it
  bool ended_early_ = false;          // one of the runs, so that its checkpoints do not reach that step
  std::optional<Pair> last_pair_;
  int folders_ = 0;
  Bisection result_;
};

}  // namespace

config::TrainConfig replay_of(config::TrainConfig c, const fs::path& checkpoint, std::int64_t last_step,
                              const fs::path& out) {
  c.resume = checkpoint.string();
  c.out = out.string();
  c.overwrite = false;
  c.steps = last_step;
  c.epochs = 0;
  c.until.clear();
  c.restarts = 0;
  c.check_replicas = 0;
  c.trace = c.tensorboard = false;
  // By messages there, too, and by the same schedules: in shared memory it would add up in another order.
  if (c.transport == kOverMpi) c.transport = "tcp";
  if (engines::engine_named(c.engine).needs_mpirun) c.engine = engines::find_engine("auto").name;
  // Running statistics are averaged whenever somebody looks at the model: after epochs anyway, and after as
  // many steps as these say.
  if (c.evaluate_every == 0) c.no_evaluate = true;
  return c;
}

Bisection bisect(const fs::path& a, const fs::path& b, const Replays& replays) {
  return Search(open_run("A", a), open_run("B", b), replays).run();
}

void to_json(nlohmann::json& json, const Bisection& b) {
  json = {{"identical", b.identical},
          {"settings", b.settings},
          {"arithmetic", b.arithmetic},
          {"equal_until", b.equal_until},
          {"differ_from", b.differ_from ? nlohmann::json(*b.differ_from) : nlohmann::json()}};
  if (!b.side.empty()) json["side"] = b.side;
  if (!b.remark.empty()) json["remark"] = b.remark;
  if (b.place) {
    json["step"] = b.place->step;
    json["stage"] = b.place->stage;
    json["tensor"] = b.place->tensor;
    json["who"] = b.place->who;
  }
  if (const auto& e = b.element) {
    json["element"] = e->element;
    json["index"] = e->index;
    json["values"] = {e->first, e->second};
    json["ulps"] = e->ulps ? nlohmann::json(*e->ulps) : nlohmann::json();
    json["differing"] = e->differing;
    json["elements"] = e->elements;
  }
}

std::string render(const Bisection& b) {
  std::string text;
  for (const auto& setting : b.settings) text += fmt::format("setting    {}\n", setting);
  if (b.identical) {
    text += fmt::format("identical up to step {}\n", b.equal_until);
    return b.remark.empty() ? text : text + fmt::format("remark     {}\n", b.remark);
  }
  text += fmt::format("same       {}\n", b.equal_until == 0
                                             ? "no checkpoint"
                                             : fmt::format("checkpoints up to step {}", b.equal_until));
  if (b.place) {
    text += fmt::format("step       {}\nside       {}\ntensor     {}\n", b.place->step, b.side,
                        checkpoint::printable(b.place->tensor));
  } else {
    text += fmt::format("side       {}\n", b.side);
  }
  if (const auto& e = b.element) {
    text +=
        fmt::format("element    {} (number {}): {} against {}, {}; {} of {} elements differ\n", e->index,
                    e->element, e->first, e->second,
                    e->ulps ? fmt::format("{} ULPs", *e->ulps) : "no distance", e->differing, e->elements);
  }
  for (const auto& what : b.arithmetic) text += fmt::format("likely     computed with another {}\n", what);
  if (!b.remark.empty()) text += fmt::format("remark     {}\n", b.remark);
  return text;
}

}  // namespace tutti::lab
