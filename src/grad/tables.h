// Embedding tables whose gradient is a few rows.
//
// An embedding layer looks up rows. Its gradient is zero but for those, and can be kept as rows and values
// instead of a tensor of the table's size. Which tables are kept so is decided by name; the others are
// parameters like all others and live in buckets.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "grad/after_accumulation.h"

namespace torch::nn {
class EmbeddingImpl;
}

namespace tutti::grad {

// The names of the weights of all embedding layers of a module, in the order of its parameters.
std::vector<std::string> embedding_names(const torch::nn::Module& module);

// What backward left in a table: rows with repetitions, and a row of values for each.
struct RowsTouched {
  torch::Tensor rows;    // int64
  torch::Tensor values;  // float32, rows x width
};

// A module's tables that are kept as rows.
class Tables {
 public:
  Tables() = default;
  // The layers with these weights give rows from now on, all other embeddings dense gradients. The module
  // outlives it.
  Tables(torch::nn::Module& module, std::span<const std::string> names);
  // The layers give such gradients as before, and have none.
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  std::size_t size() const { return tables_.size(); }
  bool contains(std::string_view name) const;
  const std::string& name(std::size_t table) const { return tables_[table].name; }
  std::size_t rows(std::size_t table) const { return static_cast<std::size_t>(weight(table).size(0)); }
  std::size_t width(std::size_t table) const { return static_cast<std::size_t>(weight(table).size(1)); }
  const torch::Tensor& weight(std::size_t table) const { return tables_[table].weight; }
  std::span<float> values(std::size_t table) const;

  // Calls hook(table) from backward, on its thread, when a table's gradient is final. Call once; stays as
  // long as the Tables.
  void on_gradient(const std::function<void(std::size_t)>& hook);

  // The gradient, which is gone then; empty if the table was not read.
  RowsTouched take_gradient(std::size_t table) const;

 private:
  struct Table {
    std::string name;
    torch::Tensor weight;
  };
  struct Layer {
    torch::nn::EmbeddingImpl* layer = nullptr;
    bool was_sparse = false;
  };
  std::vector<Layer> layers_;  // all embeddings
  std::vector<Table> tables_;
  std::vector<AccumulationHook> hooks_;
};

}  // namespace tutti::grad
