#include "library/save.h"

#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "checkpoint/series.h"
#include "config/environment.h"
#include "library/agree.h"
#include "library/optimizer_state.h"
#include "state/arithmetic.h"
#include "state/snapshot.h"

namespace tutti::library {
namespace {

using state::Differs;
using state::Hold;

constexpr auto kSaving = "save()";

// What rank 0 writes. Nobody trains until it is written, so all tensors stay where they are.
struct Common {
  state::Snapshot trained;
  state::Snapshot rest;  // what no gradient changes
  state::Snapshot optimizer;
};

void require(std::int64_t step, const std::optional<std::string>& nonfinite) {
  if (nonfinite) throw NonFinite(fmt::format("after step {}: {}; no checkpoint of it", step, *nonfinite));
}

state::Snapshot trained_parameters(const Trained& t, std::int64_t step) {
  auto snapshot = state::snapshot_model(t.replica.buckets, t.replica.tables, {}, Hold::originals);
  require(step, state::first_nonfinite(snapshot));
  return snapshot;
}

state::Snapshot optimizer_of(const Trained& t, std::int64_t step) {
  auto snapshot =
      state::snapshot_optimizer(t.replica.buckets, t.replica.tables, t.replica.updater, Hold::originals);
  state::add_own_state(snapshot, t.replica.buckets, t.replica.exchange->own_state(), Hold::originals);
  require(step, state::first_nonfinite(snapshot));
  return snapshot;
}

state::NamedTensors serialised_optimizer(const Trained& t, std::int64_t step) {
  const std::string bytes = serialised(t.optimizer);
  require(step, first_nonfinite(bytes));
  return {{kSerialised, pack(bytes)}};
}

state::Snapshot untouched_by_gradients(std::int64_t step, const state::Buffers& buffers,
                                       const state::NamedTensors& parameters) {
  state::Snapshot snapshot;
  snapshot.add("", buffers.views(), Hold::originals);
  snapshot.add("", parameters, Hold::originals);
  require(step, state::first_nan(snapshot));
  return snapshot;
}

Common common_part(const Trained& t, std::int64_t step, const state::Buffers& buffers) {
  Common c{trained_parameters(t, step), untouched_by_gradients(step, buffers, t.untrained),
           optimizer_of(t, step)};
  if (t.has_own_optimizer()) c.optimizer.add("", serialised_optimizer(t, step), Hold::originals);
  return c;
}

Differs differs(const Trained& t, const state::Buffers& buffers) {
  // With shards buffers are those of all of them, everywhere.
  if (t.member.size() == 1 || t.plan.has_shards()) return Differs::nothing;
  if (t.plan.strategy.replicas_differ) return Differs::all;
  return buffers.empty() ? Differs::nothing : Differs::buffers;
}

void write_own_part(const Trained& t, const SaveRequest& request, std::int64_t step,
                    const state::Buffers& buffers) {
  const Differs what = differs(t, buffers);
  if (what == Differs::nothing) return;
  untouched_by_gradients(step, buffers, {});
  auto part = state::snapshot_replica(t.replica.buckets, t.replica.tables, buffers, t.replica.updater, what,
                                      Hold::originals);
  if (what == Differs::all) {
    trained_parameters(t, step);
    optimizer_of(t, step);
    if (t.has_own_optimizer()) part.add("optimizer.", serialised_optimizer(t, step), Hold::originals);
  }
  checkpoint::save_replica(request.folder, step, t.member.rank(), part.views());
}

void write_whole(const Trained& t, const SaveRequest& request, std::int64_t step, const Common& common,
                 const Account& account, Differs differ) {
  auto model = common.trained.views();
  model.insert(model.end(), common.rest.views().begin(), common.rest.views().end());
  std::vector<int> others(differ == Differs::nothing ? 0 : static_cast<std::size_t>(t.member.size() - 1));
  std::iota(others.begin(), others.end(), 1);
  auto meta = to_json(account);
  meta["arithmetic"] = state::describe_arithmetic(torch::get_num_threads(), config::kernel_variables());
  checkpoint::save(request.folder, step, model, common.optimizer.views(), meta, others);
  // This training has not come further: what is later there is of another one, and resuming would take it.
  checkpoint::set_aside_later(request.folder, step);
}

// Waits for all. Everyone's steps, by rank.
std::vector<std::int64_t> gather_steps(const Trained& t, const SaveRequest& request) {
  const auto told = all_or_none(t.member.all(), kSaving, [&] {
    if (request.in_step) throw ConfigError("save() was called between a backward pass and step()");
    return fmt::format("{} {}", request.steps, request.folder);
  });
  std::vector<std::int64_t> steps;
  for (std::size_t r = 0; r < told.size(); ++r) {
    std::size_t end = 0;
    steps.push_back(std::stoll(told[r], &end));
    const std::string folder = told[r].substr(end + 1);
    if (const std::string first = told[0].substr(told[0].find(' ') + 1); folder != first) {
      throw ConfigError(fmt::format("processes 0 and {} save into {} and {}", r, first, folder));
    }
  }
  return steps;
}

}  // namespace

void save(const Trained& t, const SaveRequest& request) {
  auto& all = t.member.all();
  Account account = account_of(t);
  // When all are here nothing is on its way to servers.
  account.steps = gather_steps(t, request);
  const auto told = all_or_none(all, kSaving, [&]() -> std::string {
    if (!t.first()) return {};
    if (!request.finished) t.replica.exchange->fetch_state();
    return std::to_string(t.replica.exchange->steps_done());
  });
  const std::int64_t step = std::stoll(told[0]);

  std::optional<state::Buffers> buffers;
  std::optional<Common> common;
  try {
    all_or_none(all, kSaving, [&]() -> std::string {
      buffers.emplace(t.module);
      if (t.first()) {
        common.emplace(common_part(t, step, *buffers));
      } else {
        write_own_part(t, request, step, *buffers);
      }
      return {};
    });
  } catch (...) {
    if (t.first()) checkpoint::discard_partial(request.folder, step);
    throw;
  }
  all_or_none(all, kSaving, [&]() -> std::string {
    if (t.first()) write_whole(t, request, step, *common, account, differs(t, *buffers));
    return {};
  });
}

}  // namespace tutti::library
