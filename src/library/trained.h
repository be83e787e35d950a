// What a process trains, as its checkpoints see it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exchange/replica.h"
#include "library/member.h"
#include "library/plan.h"
#include "state/buffers.h"

namespace tutti::library {

struct Trained {
  Member& member;
  const Plan& plan;
  torch::nn::Module& module;
  const state::NamedTensors& untrained;  // the module's parameters that are not trained
  torch::optim::Optimizer& optimizer;
  exchange::Replica& replica;

  bool first() const { return member.rank() == 0; }
  // The optimizer is called as it is.
  bool has_own_optimizer() const { return !plan.optimizer.settings; }
};

// What a manifest says of a training beside its tensors.
struct Account {
  std::string strategy;
  bool replicas_differ = false;     // its replicas differ between synchronisations
  std::vector<std::int64_t> steps;  // that each process brought gradients to
  std::string optimizer;            // "adam", or its class where it is called as it is
  // Of an optimizer that is called as it is: the names of its parameters, by group. It knows them by their
  // places alone.
  std::vector<std::vector<std::string>> groups;
  int shards = 0;          // of a step; 0: processes have samples of their own
  std::uint64_t seed = 0;  // of shards
};

// `steps` is left empty.
Account account_of(const Trained& trained);

nlohmann::json to_json(const Account& account);
// Throws DataError that begins with `where`.
Account read_account(const nlohmann::json& meta, const std::string& where);

// An optimizer that is called as it is, in optimizer.safetensors; in a part of a process behind "optimizer.".
inline constexpr auto kSerialised = "serialised";

}  // namespace tutti::library
