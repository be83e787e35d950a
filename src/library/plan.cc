#include "library/plan.h"

#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <typeinfo>
#include <unordered_set>

#include "base/error.h"

namespace tutti::library {
namespace {

void refuse(const DistributedOptions& options, const std::string& why) {
  throw ConfigError(fmt::format("strategy '{}': {}", options.strategy, why));
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

Plan plan_of(const DistributedOptions& o, Member& member, const torch::optim::Optimizer& optimizer) {
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
  if (s.servers) plan.servers = o.servers > 0 ? o.servers : workers;
  if (o.uneven_inputs && (s.hybrid || s.replicas_differ)) refuse(o, "inputs may not be uneven");
  if (o.hook && !s.takes_hooks) {
    refuse(
        o,
        "a hook is for strategies that average buckets among the workers: ring, allreduce, reduce-broadcast");
  }

  auto& t = plan.tuning;
  t.sync_every = o.sync_every;
  t.moving_rate = o.moving_rate > 0 ? o.moving_rate : 0.9 / workers;
  t.clip_norm = o.clip_norm;
  t.on_nonfinite = o.skip_nonfinite ? exchange::OnNonFinite::skip : exchange::OnNonFinite::stop;
  t.partitions = std::max(1, plan.servers);
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
    if (weight.requires_grad() && names[identity] == 1 && updated.count(identity) > 0) tables.push_back(name);
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

std::string describe(const Plan& plan, const DistributedOptions& options, const grad::Buckets& buckets,
                     const grad::Tables& tables) {
  std::ostringstream text;
  text << "strategy " << plan.strategy.name << ", " << plan.servers << " servers, optimizer "
       << (plan.optimizer.settings ? optim::name_of(plan.optimizer.settings->kind) : "of its own")
       << ", buckets of " << options.bucket_bytes << " bytes, " << (options.hook ? "a hook, " : "")
       << (options.uneven_inputs ? "uneven inputs, " : "")
       << (options.resume.empty() ? "" : "from " + options.resume + ", ") << tables.size()
       << " tables, parameters";
  for (std::size_t i = 0; i < buckets.parameter_count(); ++i) {
    const auto id = grad::ParamId{static_cast<int>(i)};
    text << ' ' << buckets.name_of(id) << ' ' << buckets.count_of(id);
  }
  return text.str();
}

}  // namespace tutti::library
