// The processes of an engine, as hooks and strategies see them.
#pragma once

#include <string>

#include "library/tensors.h"
#include "tutti/workers.h"

namespace tutti::library {

// One thread uses it. The engine outlives it.
class CollectiveWorkers final : public Workers {
 public:
  // `label` says to people who moves the numbers.
  CollectiveWorkers(collectives::Collectives& all, std::string label)
      : all_(all), tensors_(all), label_(std::move(label)) {}

  int rank() const override { return to_int(all_.rank()); }
  int size() const override { return all_.world(); }
  void all_reduce(torch::Tensor& tensor, ReduceOp op) override { tensors_.all_reduce(tensor, op, label_); }
  torch::Tensor all_gather(const torch::Tensor& tensor) override {
    return tensors_.all_gather(tensor, label_);
  }
  void broadcast(torch::Tensor& tensor, int root) override { tensors_.broadcast(tensor, root, label_); }

 private:
  collectives::Collectives& all_;
  Tensors tensors_;
  const std::string label_;
};

}  // namespace tutti::library
