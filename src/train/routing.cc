#include "train/routing.h"

#include <algorithm>

#include "base/error.h"
#include "config/emulation.h"

namespace tutti::train {

Routing::Routing(const RunContext& run, const models::Model& model, const exchange::Tuning& tuning)
    : run_(run), model_(model), tuning_(tuning), embeddings_(grad::embedding_names(model)) {}

void Routing::decide(const std::function<std::vector<torch::Tensor>()>& rows_read,
                     const std::vector<exchange::Route>& kept) {
  if (!exchange::takes_rows(run_.strategy, tuning_)) {
    if (run_.strategy.servers && !embeddings_.empty()) {
      run_.note(fmt::format("embedding tables travel whole: {}", exchange::why_whole_tables(tuning_)));
    }
    return;
  }
  if (!run_.strategy.hybrid) {
    by_rows_ = embeddings_;
    return;
  }
  cluster_ = cluster();
  // Decided anew, a run that goes on might send a table the other way, and sum it in another order.
  if (!kept.empty()) return take(kept);
  const auto densities = embeddings_.empty() ? std::vector<double>() : densities_of(rows_read());
  std::vector<exchange::Route> routes;
  for (const auto& item : model_.named_parameters()) {
    const auto table = std::ranges::find(embeddings_, item.key());
    const bool dense = table == embeddings_.end();
    routes.push_back(
        route(item.key(), dense ? 1 : densities[static_cast<std::size_t>(table - embeddings_.begin())]));
  }
  take(std::move(routes));
}

bool Routing::revise(const grad::Tables& tables, std::vector<double> densities) {
  if (!run_.strategy.hybrid || by_rows_.empty()) return false;
  TUTTI_CHECK(densities.size() == tables.size());
  // Workers read different rows; all must decide the same.
  densities = mean_over_workers(std::move(densities));
  auto routes = routes_;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    *std::ranges::find(routes, tables.name(t), &exchange::Route::parameter) =
        route(tables.name(t), densities[t]);
  }
  if (exchange::by_servers(routes) == by_rows_) return false;
  take(std::move(routes));
  return true;
}

std::vector<double> Routing::densities_of(const std::vector<torch::Tensor>& read) const {
  TUTTI_CHECK(read.size() == embeddings_.size(), "{} tables, {} read", embeddings_.size(), read.size());
  std::vector<double> densities;
  for (std::size_t t = 0; t < read.size(); ++t) {
    const auto rows = model_.named_parameters()[embeddings_[t]].size(0);
    densities.push_back(static_cast<double>(std::get<0>(torch::_unique2(read[t])).numel()) /
                        static_cast<double>(rows));
  }
  return mean_over_workers(std::move(densities));
}

std::vector<double> Routing::mean_over_workers(std::vector<double> values) const {
  run_.workers.all_reduce({values.data(), values.size(), DType::f64}, collectives::ReduceOp::average,
                          "densities");
  return values;
}

// What a link carries differs from run to run where it is measured, and with it the routes and the last bits.
// So it is measured only on request.
exchange::ClusterFacts Routing::cluster() const {
  const config::TrainConfig& c = run_.config;
  if (c.measure_links) return exchange::measure_cluster(run_.workers, c.servers);
  const auto link = c.transport == "shm" ? exchange::Link::shared_memory : exchange::Link::network;
  auto usual = exchange::usual_cluster(run_.workers.world(), c.servers, link);
  if (const auto emulation = config::parse_emulation(c.emulate)) {
    usual.bytes_per_second = static_cast<double>(emulation->bits_per_second) / 8;
  }
  return usual;
}

exchange::Route Routing::route(const std::string& name, double density) const {
  const auto parameter = model_.named_parameters()[name];
  const bool table = std::ranges::find(embeddings_, name) != embeddings_.end();
  return exchange::route({.name = name,
                          .bytes = static_cast<std::size_t>(parameter.numel()) * sizeof(float),
                          .rows = table ? static_cast<std::size_t>(parameter.size(0)) : 0,
                          .density = density},
                         cluster_);
}

void Routing::take(std::vector<exchange::Route> routes) {
  routes_ = std::move(routes);
  by_rows_ = exchange::by_servers(routes_);
  for (const auto& line : exchange::table_of(routes_)) run_.note(line);
}

}  // namespace tutti::train
