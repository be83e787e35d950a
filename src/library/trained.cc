#include "library/trained.h"

#include <map>

#include "base/error.h"
#include "base/version.h"
#include "library/optimizer_state.h"

namespace tutti::library {
namespace {

constexpr auto kWriter = "tutti::Distributed";

std::vector<std::vector<std::string>> names_by_group(const Trained& t) {
  std::map<const c10::TensorImpl*, std::string> names;
  for (const auto& item : t.module.named_parameters()) {
    names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  }
  std::vector<std::vector<std::string>> groups;
  for (const auto& group : t.optimizer.param_groups()) {
    auto& of_group = groups.emplace_back();
    for (const auto& p : group.params()) of_group.push_back(names.at(p.unsafeGetTensorImpl()));
  }
  return groups;
}

}  // namespace

Account account_of(const Trained& t) {
  Account account;
  account.strategy = t.plan.strategy.name;
  account.replicas_differ = t.plan.strategy.replicas_differ;
  account.shards = t.plan.tuning.shards;
  account.seed = t.plan.has_shards() ? t.plan.seed : 0;
  if (t.has_own_optimizer()) {
    account.optimizer = class_of(t.optimizer);
    account.groups = names_by_group(t);
  } else {
    account.optimizer = optim::name_of(t.plan.optimizer.settings->kind);
  }
  return account;
}

nlohmann::json to_json(const Account& a) {
  return {{"writer", kWriter},      {"version", kVersion},
          {"strategy", a.strategy}, {"replicas_differ", a.replicas_differ},
          {"steps", a.steps},       {"optimizer", a.optimizer},
          {"groups", a.groups},     {"shards", a.shards},
          {"seed", a.seed}};
}

Account read_account(const nlohmann::json& meta, const std::string& where) {
  if (!meta.is_object() || meta.value("writer", "") != kWriter) {
    throw DataError(fmt::format("{}: this checkpoint was not written by {}::save()", where, kWriter));
  }
  try {
    Account a;
    meta.at("strategy").get_to(a.strategy);
    meta.at("replicas_differ").get_to(a.replicas_differ);
    meta.at("steps").get_to(a.steps);
    meta.at("optimizer").get_to(a.optimizer);
    meta.at("groups").get_to(a.groups);
    a.shards = meta.value("shards", a.shards);  // older ones have none
    a.seed = meta.value("seed", a.seed);
    return a;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: {}", where, e.what()));
  }
}

}  // namespace tutti::library
