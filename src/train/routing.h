// Which way each parameter of a model goes: embedding tables by rows or whole, and under hybrid everything
// else by all-reduce.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exchange/router.h"
#include "exchange/strategy.h"
#include "grad/tables.h"
#include "models/model.h"
#include "train/run_context.h"

namespace tutti::train {

// All workers make the same calls: some measure together.
class Routing {
 public:
  // All of it outlives the routing.
  Routing(const RunContext& run, const models::Model& model, const exchange::Tuning& tuning);

  // From what the first batch reads of each embedding. A resumed run keeps its routes, whatever it would
  // decide today.
  void decide(const std::function<std::vector<torch::Tensor>()>& rows_read,
              const std::vector<exchange::Route>& kept);
  // At the end of an epoch, from the fraction of each table's rows that a step of this worker has touched:
  // what has turned dense goes by all-reduce from now on. Whether anything changes.
  bool revise(const grad::Tables& tables, std::vector<double> densities);

  // The names of all embeddings' weights, in the order of Model::rows_read.
  const std::vector<std::string>& embeddings() const { return embeddings_; }
  const std::vector<std::string>& by_rows() const { return by_rows_; }
  const std::vector<exchange::Route>& routes() const { return routes_; }  // of hybrid

 private:
  std::vector<double> densities_of(const std::vector<torch::Tensor>& read) const;
  std::vector<double> mean_over_workers(std::vector<double> values) const;
  exchange::ClusterFacts cluster() const;
  exchange::Route route(const std::string& name, double density) const;
  void take(std::vector<exchange::Route> routes);

  const RunContext& run_;
  const models::Model& model_;
  const exchange::Tuning& tuning_;
  const std::vector<std::string> embeddings_;
  std::vector<std::string> by_rows_;
  std::vector<exchange::Route> routes_;
  exchange::ClusterFacts cluster_;
};

}  // namespace tutti::train
