#include "library/plan.h"

#include <c10/util/Type.h>
#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <typeinfo>
#include <unordered_set>

#include "base/error.h"
#include "exchange/servers.h"

namespace tutti::library {
namespace {

void refuse(const DistributedOptions& options, const std::string& why) {
  throw ConfigError(fmt::format("strategy '{}': {}", options.strategy, why));
}

void require_shards(const DistributedOptions& o, const exchange::Strategy& strategy, int workers) {
  if (o.shards < 0) refuse(o, fmt::format("shards is {}, but must be 0 or more", o.shards));
  if (o.shards > 4096) refuse(o, fmt::format("shards is {}, but must be at most 4096", o.shards));
  if (o.shards == 0) return;
  if (!strategy.takes_shards) refuse(o, fmt::format("no shards: {}", exchange::why_no_shards(strategy)));
  if (o.shards < workers) {
    refuse(o,
           fmt::format("{} shards for {} processes, of which each computes at least one", o.shards, workers));
  }
  if (o.hook) refuse(o, "no shards with a hook: it adds up gradients in an order of its own");
  if (o.uneven_inputs) refuse(o, "no shards with uneven inputs: every shard counts in every step");
}

using Identities = std::unordered_set<const c10::TensorImpl*>;

Identities updated_by(const torch::optim::Optimizer& optimizer) {
  Identities updated;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& p : group.params()) updated.insert(p.unsafeGetTensorImpl());
  }
  return updated;
}

}  // namespace

Plan plan_of(const DistributedOptions& o, Member& member, const torch::nn::Module& module,
             const torch::optim::Optimizer& optimizer) {
  const int workers = member.size();
  Plan plan{.strategy = exchange::find_strategy(o.strategy), .optimizer = recognise(optimizer)};
  const exchange::Strategy& s = plan.strategy;
  if (s.one_worker_only && workers > 1) refuse(o, fmt::format("there are {} processes", workers));
  if (o.servers < 0 || o.servers > workers) {
    refuse(o, fmt::format("{} servers for {} processes, of which each can have one", o.servers, workers));
  }
  if (typeid(optimizer) == typeid(torch::optim::LBFGS))
    refuse(o, "LBFGS asks for several gradients a step, by a closure");
  if (o.sync_every < 1) refuse(o, fmt::format("sync_every is {}, but must be 1 or more", o.sync_every));
  if (o.staleness < 0) refuse(o, fmt::format("staleness is {}, but must be 0 or more", o.staleness));
  if (!(o.clip_norm >= 0)) refuse(o, fmt::format("clip_norm is {}, but must be 0 or more", o.clip_norm));
  if (!(o.moving_rate >= 0 && o.moving_rate < 1)) {
    refuse(o, fmt::format("moving_rate is {}, but must be between 0 (choose) and 1", o.moving_rate));
  }
  if (s.servers) plan.servers = o.servers > 0 ? o.servers : workers;
  if (o.uneven_inputs && !s.takes_uneven_inputs) refuse(o, "inputs may not be uneven");
  if (o.hook && !s.takes_hooks) {
    refuse(
        o,
        "a hook is for strategies that average buckets among the workers: ring, allreduce, reduce-broadcast");
  }
  require_shards(o, s, workers);

  auto& t = plan.tuning;
  t.sync_every = o.sync_every;
  t.moving_rate = o.moving_rate > 0 ? o.moving_rate : 0.9 / workers;
  t.clip_norm = o.clip_norm;
  t.on_nonfinite = o.skip_nonfinite ? exchange::OnNonFinite::skip : exchange::OnNonFinite::stop;
  t.partitions = std::max(1, plan.servers);
  t.shards = t.servers.shards = o.shards;
  // A table that is read twice, or in several backward passes, has a gradient in parts. Their sum is torch's
  // where the table is whole, part by part; of rows nobody knows any more which belong to which part.
  t.whole_tables = o.shards > 0;
  plan.seed = o.seed;
  t.servers.workers = workers;
  t.servers.first_server = workers;
  t.servers.servers = plan.servers;
  t.servers.policy = {
      .consistency = s.servers.value_or(ps::Consistency::sync), .workers = workers, .staleness = o.staleness};
  t.servers.timeout = member.timeout();
  if (plan.optimizer.settings) t.servers.optimizer = *plan.optimizer.settings;
  if (s.servers == ps::Consistency::sync && !s.hybrid) {
    // Where more must be known than the piece that a server has, workers update, from means that servers
    // form.
    const bool whole = !plan.optimizer.settings || o.clip_norm > 0 || o.uneven_inputs;
    t.servers.role = whole ? ps::Role::mean : ps::Role::update;
  } else if (s.servers && !plan.optimizer.settings) {
    refuse(o, fmt::format("its servers update, and cannot by this optimizer: {}", plan.optimizer.why_not));
  }
  // A process that has come to its end brings nothing, which one push of several cannot say.
  const bool has_tables = !tables_of(module, optimizer).empty();
  if (!o.uneven_inputs && exchange::push_as_one(s, t, member.hosts(), has_tables)) {
    t.local_aggregation = true;
    const int pushing = static_cast<int>(exchange::pushing_workers(member.hosts()).size());
    t.servers.workers = t.servers.policy.workers = pushing;
    plan.seen_by_servers = exchange::pushers_first(member.hosts(), plan.servers);
  }
  return plan;
}

std::vector<std::string> tables_of(const torch::nn::Module& module,
                                   const torch::optim::Optimizer& optimizer) {
  const Identities updated = updated_by(optimizer);
  std::map<const c10::TensorImpl*, int> names;
  const auto parameters = module.named_parameters();
  for (const auto& item : parameters) ++names[item.value().unsafeGetTensorImpl()];
  std::vector<std::string> tables;
  for (const std::string& name : grad::embedding_names(module)) {
    const torch::Tensor& weight = parameters[name];
    const auto* identity = weight.unsafeGetTensorImpl();
    // One that cannot be a table is refused by name where parameters are.
    const bool fits =
        weight.scalar_type() == torch::kFloat32 && weight.device().is_cpu() && weight.is_contiguous();
    if (fits && weight.requires_grad() && names[identity] == 1 && updated.count(identity) > 0) {
      tables.push_back(name);
    }
  }
  return tables;
}

std::vector<grad::Parameter> parameters_of(const torch::nn::Module& module,
                                           const torch::optim::Optimizer& optimizer,
                                           const grad::Tables& tables) {
  Identities updated = updated_by(optimizer);
  std::vector<grad::Parameter> found;
  for (auto& p : grad::trained_parameters(module)) {
    if (updated.erase(p.tensor.unsafeGetTensorImpl()) > 0 && !tables.contains(p.name)) {
      found.push_back(std::move(p));
    }
  }
  for (const auto& p : module.parameters()) updated.erase(p.unsafeGetTensorImpl());  // frozen ones
  if (!updated.empty()) {
    throw ConfigError(
        fmt::format("the optimizer has {} parameters that are none of the module's", updated.size()));
  }
  return found;
}

state::NamedTensors untrained_parameters(const torch::nn::Module& module,
                                         const torch::optim::Optimizer& optimizer) {
  const Identities updated = updated_by(optimizer);
  Identities seen;
  state::NamedTensors found;
  for (const auto& item : module.named_parameters()) {
    const auto* identity = item.value().unsafeGetTensorImpl();
    const bool trained = item.value().requires_grad() && updated.count(identity) > 0;
    if (!trained && seen.insert(identity).second) found.emplace_back(item.key(), item.value());
  }
  return found;
}

std::string describe(const Plan& plan, const DistributedOptions& o,
                     const torch::optim::Optimizer& optimizer) {
  std::string rates;
  if (!plan.strategy.asynchronous) {
    for (const double lr : learning_rates(optimizer)) rates += fmt::format(" {}", lr);
  }
  std::string loop = c10::demangle(typeid(optimizer).name());
  if (const auto& s = plan.optimizer.settings) {
    loop = fmt::format("{} (momentum {}, betas {} and {}, alpha {}, epsilon {}, weight decay {})",
                       optim::name_of(s->kind), optim::momentum_of(*s), s->beta1, s->beta2, s->alpha,
                       optim::epsilon_of(*s), optim::weight_decay_of(*s));
  }
  return fmt::format(
      "strategy {}, {} servers, staleness {}, sync_every {}, moving_rate {}, clip_norm {}, skip_nonfinite "
      "{}, "
      "bucket_bytes {}, uneven_inputs {}, hook {}, {} shards{}, resume '{}', {}optimizer {}, learning "
      "rates{}",
      plan.strategy.name, plan.servers, o.staleness, o.sync_every, plan.tuning.moving_rate, o.clip_norm,
      o.skip_nonfinite, o.bucket_bytes, o.uneven_inputs, o.hook != nullptr, o.shards,
      o.shards > 0 ? fmt::format(" of seed {}", o.seed) : "", o.resume,
      plan.tuning.local_aggregation ? "one push a host, " : "", loop, rates);
}

std::string describe(const grad::Buckets& buckets, const grad::Tables& tables) {
  std::ostringstream text;
  text << "tables";
  for (std::size_t i = 0; i < tables.size(); ++i) {
    text << ' ' << tables.name(i) << ' ' << tables.rows(i) << 'x' << tables.width(i);
  }
  text << ", parameters";
  for (std::size_t i = 0; i < buckets.parameter_count(); ++i) {
    const auto id = grad::ParamId{static_cast<int>(i)};
    text << ' ' << buckets.name_of(id) << ' ' << buckets.count_of(id);
  }
  return text.str();
}

}  // namespace tutti::library
