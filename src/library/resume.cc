#include "library/resume.h"

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/error.h"
#include "checkpoint/series.h"
#include "library/agree.h"
#include "library/optimizer_state.h"
#include "state/snapshot.h"

namespace tutti::library {
namespace {

namespace fs = std::filesystem;

constexpr auto kResuming = "resume";

checkpoint::Checkpoint find(const fs::path& folder) {
  auto origin = checkpoint::find_origin(folder);
  if (origin) {
    for (const auto& note : origin->notes) TORCH_WARN("resume: ", note);
    return std::move(origin->checkpoint);
  }
  std::error_code ignored;
  throw DataError(
      fmt::format("resume: {}: {}", folder.string(),
                  fs::exists(folder, ignored) ? "no finished checkpoint there" : "no such folder"));
}

void require_same_training(const Trained& t, const Account& then, const std::string& where) {
  const Account now = account_of(t);
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("resume: {}: {}", where, why));
  };
  if (then.optimizer != now.optimizer) {
    refuse(fmt::format(
        "the optimizer there is {}, here it is {}{}", then.optimizer, now.optimizer,
        t.has_own_optimizer() ? fmt::format(", called as it is: {}", t.plan.optimizer.why_not) : ""));
  }
  if (then.groups != now.groups) {
    refuse(fmt::format("the optimizer there has the parameters {}, here {}",
                       nlohmann::json(then.groups).dump(), nlohmann::json(now.groups).dump()));
  }
  if (then.shards != now.shards) {
    refuse(fmt::format("it is of {} shards a step, here are {}", then.shards, now.shards));
  }
  if (then.seed != now.seed) {
    refuse(fmt::format("its shards draw by seed {}, here it is {}", then.seed, now.seed));
  }
  if (!then.replicas_differ && !now.replicas_differ) return;
  if (then.strategy != now.strategy) {
    refuse(fmt::format("it is of strategy {}, here it is {}; replicas differ under one of them",
                       then.strategy, now.strategy));
  }
  if (static_cast<int>(then.steps.size()) != t.member.size()) {
    refuse(fmt::format("it is of {} processes, here are {}; under {} each has a replica of its own",
                       then.steps.size(), t.member.size(), now.strategy));
  }
}

// What is missing or of another shape restoring finds by itself.
void require_no_others(const Trained& t, const state::Buffers& buffers,
                       const checkpoint::SafetensorsFile& model) {
  std::set<std::string> names;
  for (const auto& [name, view] : t.replica.buckets.named_views(t.replica.buckets.all_parameters()))
    names.insert(name);
  for (std::size_t i = 0; i < t.replica.tables.size(); ++i) names.insert(t.replica.tables.name(i));
  for (const auto& [name, view] : buffers.views()) names.insert(name);
  for (const auto& [name, view] : t.untrained) names.insert(name);
  for (const auto& tensor : model.tensors()) {
    if (names.count(tensor.name) == 0) {
      throw DataError(fmt::format("{}: the model has no tensor {}", model.path().string(),
                                  checkpoint::quoted(tensor.name)));
    }
  }
}

std::string unpack_from(const checkpoint::SafetensorsFile& file, const std::string& name) {
  return unpack(file.at(name).bytes, file.path().string());
}

std::string read_common_part(const Trained& t, const std::string& folder, RestoredSteps& resumed) {
  const checkpoint::Checkpoint from = find(folder);
  const std::string manifest = (from.path / "manifest.json").string();
  const Account account = read_account(from.meta, manifest);
  require_same_training(t, account, manifest);
  const state::Buffers buffers(t.module);
  require_no_others(t, buffers, from.model);
  state::restore(from.model, t.untrained);
  state::restore(from, t.replica.buckets, t.replica.tables, buffers, t.replica.updater,
                 t.replica.exchange->own_state());
  if (t.has_own_optimizer()) {
    resumed.serialised = unpack_from(*from.optimizer, kSerialised);
    deserialise(t.optimizer, resumed.serialised, from.optimizer->path().string());
  }
  // For the others, to whom it goes with the word that nothing failed here (all_or_none): a folder may have a
  // newer checkpoint, or a damaged one, by the time that they look for themselves.
  return nlohmann::json{{"path", from.path.string()}, {"step", *from.step}, {"steps", account.steps}}.dump();
}

void broadcast(const Trained& t, std::string& text) {
  auto length = static_cast<std::uint64_t>(text.size());
  auto& tensors = t.member.tensors();
  tensors.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0, kResuming);
  text.resize(length);
  tensors.broadcast(std::as_writable_bytes(std::span(text)), 0, kResuming);
}

void read_own_part(const Trained& t, const fs::path& step_folder, std::string serialised) {
  const auto part = checkpoint::load_replica(step_folder, t.member.rank());
  const bool replicas_differ = t.plan.strategy.replicas_differ;
  if (!part && replicas_differ) {
    throw DataError(fmt::format("{}: no part of rank {}", step_folder.string(), t.member.rank()));
  }
  if (part) {
    state::restore_replica(*part, t.replica.buckets, t.replica.tables, state::Buffers(t.module),
                           t.replica.updater);
  }
  if (!t.has_own_optimizer()) return;
  if (replicas_differ) serialised = unpack_from(*part, std::string("optimizer.") + kSerialised);
  deserialise(t.optimizer, serialised, step_folder.string());
}

}  // namespace

RestoredSteps restore_first(const Trained& t, const std::string& folder) {
  RestoredSteps resumed;
  const auto told = all_or_none(t.member.all(), kResuming,
                                [&] { return t.first() ? read_common_part(t, folder, resumed) : ""; });
  const auto json = nlohmann::json::parse(told[0]);
  const auto steps = json.at("steps").get<std::vector<std::int64_t>>();
  resumed.path = json.at("path").get<std::string>();
  resumed.model_steps = json.at("step");
  // Steps of one's own mean something only among as many processes as there were: ranks are others else.
  const bool same_processes = static_cast<int>(steps.size()) == t.member.size();
  resumed.own_steps = same_processes ? steps[static_cast<std::size_t>(t.member.rank())] : resumed.model_steps;
  return resumed;
}

void restore_others(const Trained& t, const RestoredSteps& resumed) {
  std::string serialised = resumed.serialised;
  if (t.has_own_optimizer() && !t.plan.strategy.replicas_differ) broadcast(t, serialised);
  all_or_none(t.member.all(), kResuming, [&]() -> std::string {
    if (!t.first()) read_own_part(t, resumed.path, std::move(serialised));
    return {};
  });
}

}  // namespace tutti::library
