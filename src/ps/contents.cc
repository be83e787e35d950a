#include "ps/contents.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::ps {
namespace {

// The first difference, in depth.
std::string difference_at(const nlohmann::json& ours, const nlohmann::json& theirs, const std::string& at) {
  if (ours.is_object() && theirs.is_object()) {
    for (const auto& [key, value] : ours.items()) {
      if (!theirs.contains(key) || theirs[key] != value) {
        return difference_at(value, theirs.value(key, nlohmann::json()),
                             at.empty() ? key : fmt::format("{}/{}", at, key));
      }
    }
  }
  if (ours.is_array() && theirs.is_array()) {
    for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
      const auto a = i < ours.size() ? ours[i] : nlohmann::json();
      const auto b = i < theirs.size() ? theirs[i] : nlohmann::json();
      if (a != b) return difference_at(a, b, fmt::format("{}/{}", at, i));
    }
  }
  const auto text = [](const nlohmann::json& j) { return j.is_null() ? "nothing" : j.dump(); };
  return fmt::format("{}: the server has {}, the worker {}", at, text(ours), text(theirs));
}

}  // namespace

nlohmann::json describe(const ServerOptions& o, const Contents& c) {
  const auto& p = o.policy;
  auto tables = nlohmann::json::array();
  for (const TableShape& t : c.tables) tables.push_back({t.name, t.rows, t.width});
  return {{"model", c.model},
          {"buckets", c.buckets},
          {"piece_bytes", c.piece_bytes},
          {"tables", tables},
          {"partitions", c.partitions},
          {"workers", o.workers},
          {"servers", o.servers},
          {"consistency",
           {{"kind", static_cast<int>(p.consistency)}, {"backup", p.backup}, {"staleness", p.staleness}}},
          {"role", static_cast<int>(o.role)},
          {"damp_stale", o.damp_stale},
          {"shards", o.shards},
          {"optimizer",
           {{"kind", optim::name_of(o.optimizer.kind)},
            {"momentum", optim::momentum_of(o.optimizer)},
            {"beta1", o.optimizer.beta1},
            {"beta2", o.optimizer.beta2},
            {"alpha", o.optimizer.alpha},
            {"epsilon", optim::epsilon_of(o.optimizer)},
            {"weight_decay", optim::weight_decay_of(o.optimizer)}}}};
}

Contents contents_in(const nlohmann::json& description) {
  try {
    Contents c{.model = description.at("model"),
               .buckets = description.at("buckets"),
               .piece_bytes = description.at("piece_bytes"),
               .partitions = description.at("partitions")};
    for (const auto& t : description.at("tables")) c.tables.push_back({t.at(0), t.at(1), t.at(2)});
    return c;
  } catch (const nlohmann::json::exception& e) {
    throw ProtocolError(fmt::format("a worker did not describe what is trained: {}", e.what()));
  }
}

std::string difference(const nlohmann::json& servers, const nlohmann::json& workers) {
  // What people know by name comes first.
  const auto model = workers.value("model", nlohmann::json());
  return model != servers.at("model") ? difference_at(servers.at("model"), model, "model")
                                      : difference_at(servers, workers, "");
}

}  // namespace tutti::ps
