#include "grad/tables.h"

#include <torch/nn/modules/embedding.h>

#include <algorithm>

#include "base/error.h"
#include "base/large_pages.h"

namespace tutti::grad {
namespace {

// Calls visit(name of the weight, layer) for every embedding layer.
void for_each_embedding(const torch::nn::Module& module,
                        const std::function<void(const std::string&, torch::nn::EmbeddingImpl&)>& visit) {
  for (const auto& item : module.named_modules("", false)) {
    if (auto* layer = item.value()->as<torch::nn::EmbeddingImpl>()) visit(item.key() + ".weight", *layer);
  }
}

void move_to_large_pages(torch::Tensor& weight) {
  const auto home =
      std::make_shared<std::vector<float>>(zeros_in_large_pages(static_cast<std::size_t>(weight.numel())));
  auto values = torch::from_blob(home->data(), weight.sizes(), [home](void*) {});
  values.copy_(weight.detach());
  weight.set_data(values);
}

}  // namespace

std::vector<std::string> embedding_names(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for_each_embedding(module, [&](const std::string& name, auto&) { names.push_back(name); });
  return names;
}

Tables::Tables(torch::nn::Module& module, std::span<const std::string> names) {
  for_each_embedding(module, [&](const std::string& name, torch::nn::EmbeddingImpl& layer) {
    const bool chosen = std::ranges::find(names, name) != names.end();
    layers_.push_back({&layer, layer.options.sparse()});
    layer.options.sparse(chosen);
    if (!chosen) return;
    TUTTI_CHECK(layer.weight.scalar_type() == torch::kFloat32 && layer.weight.is_contiguous(), "{}", name);
    layer.weight.mutable_grad().reset();
    move_to_large_pages(layer.weight);
    tables_.push_back({name, layer.weight});
  });
  TUTTI_CHECK(tables_.size() == names.size(), "{} of {} tables found", tables_.size(), names.size());
}

Tables::~Tables() {
  for (const auto& [layer, was_sparse] : layers_) layer->options.sparse(was_sparse);
  for (Table& table : tables_) table.weight.mutable_grad().reset();
}

bool Tables::contains(std::string_view name) const {
  return std::ranges::find(tables_, name, &Table::name) != tables_.end();
}

std::span<float> Tables::values(std::size_t table) const {
  const torch::Tensor& w = tables_[table].weight;
  return {w.data_ptr<float>(), static_cast<std::size_t>(w.numel())};
}

void Tables::on_gradient(const std::function<void(std::size_t)>& hook) {
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    hooks_.emplace_back(tables_[i].weight, [hook, i] { hook(i); });
  }
}

RowsTouched Tables::take_gradient(std::size_t table) const {
  torch::Tensor weight = tables_[table].weight;  // another handle of the same parameter
  const torch::Tensor gradient = weight.grad();
  const auto width = weight.size(1);
  if (!gradient.defined()) return {torch::empty({0}, torch::kInt64), torch::empty({0, width})};
  weight.mutable_grad().reset();
  if (!gradient.is_sparse()) {  // the table is used as a matrix, too: any row may have one
    const auto rows = gradient.abs().sum(1).nonzero().flatten();
    return {rows, gradient.index_select(0, rows)};
  }
  return {gradient._indices().flatten().contiguous(), gradient._values().contiguous()};
}

}  // namespace tutti::grad
