// What a run is defined to give, by one thread, slowly and obviously: tensors one by one, in doubles, by the
// textbook. It shares nothing with what it checks but the networks, the samples and the order of an epoch.
#pragma once

#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "data/sampler.h"
#include "train/as_tensors.h"
#include "train/open_data.h"
#include "train/plan.h"

namespace tutti::train::plain {

using Numbers = std::vector<double>;
using Tensors = std::map<std::string, Numbers>;  // by name

inline Numbers numbers_of(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kFloat64).contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

inline double length_of(const Numbers& numbers) {
  double squares = 0;
  for (const double x : numbers) squares += x * x;
  return std::sqrt(squares);
}

class Run {
 public:
  // Of these tables only rows that a worker has read are updated.
  explicit Run(const Setup& setup, std::set<std::string> by_rows = {})
      : c_(setup.config),
        by_rows_(std::move(by_rows)),
        training_(open_samples(setup, Part::training)),
        test_(open_samples(setup, Part::test)) {
    for (int w = 0; w < c_.workers; ++w) {
      torch::manual_seed(c_.seed);
      workers_.push_back({models::make_model(c_.model, options_of(c_)), {}});
      workers_.back().model->train();
    }
    centre_ = parameters();
  }

  // Steps behind it.
  std::int64_t steps() const { return step_; }
  Tensors parameters(std::size_t worker = 0) const {
    Tensors all;
    for (const auto& item : workers_[worker].model->named_parameters()) {
      all[item.key()] = numbers_of(item.value());
    }
    return all;
  }
  // Of rank 0, and so is its state.
  Tensors buffers() const {
    Tensors all;
    for (const auto& item : workers_[0].model->named_buffers()) all[item.key()] = numbers_of(item.value());
    return all;
  }
  // "exp_avg.dense1.weight" and so on.
  Tensors state() const {
    Tensors all;
    for (const auto& [slot, tensors] : workers_[0].state) {
      for (const auto& [name, numbers] : tensors) all[slot + "." + name] = numbers;
    }
    return all;
  }

  void step() {
    std::vector<Tensors> own;
    for (std::size_t w = 0; w < workers_.size(); ++w) own.push_back(gradient_of(w));
    const double lr = rate();
    ++step_;
    if (replicas_differ()) {
      for (std::size_t w = 0; w < workers_.size(); ++w) update(workers_[w], clipped(own[w]), lr);
      if (step_ % c_.sync_every == 0) meet();
      return;
    }
    Tensors mean;
    for (const auto& [name, first] : own[0]) {
      mean[name].resize(first.size());
      for (const Tensors& g : own) {
        for (std::size_t i = 0; i < first.size(); ++i) mean[name][i] += g.at(name)[i] / c_.workers;
      }
    }
    update(workers_[0], clipped(std::move(mean)), lr);
    for (Worker& w : workers_) set(w, parameters());
  }

  // As at an evaluation, a checkpoint and the end of an epoch.
  void average_buffers() {
    const torch::NoGradGuard no_grad;
    for (const auto& item : workers_[0].model->named_buffers()) {
      std::vector<torch::Tensor> all;
      for (const Worker& w : workers_) all.push_back(w.model->named_buffers()[item.key()].clone());
      const auto together = torch::stack(all);
      const bool counts = item.value().scalar_type() == torch::kInt64;
      for (const Worker& w : workers_) {
        w.model->named_buffers()[item.key()].copy_(counts ? std::get<0>(together.max(0)) : together.mean(0));
      }
    }
  }

  void end() {
    if (replicas_differ()) meet();
    if (c_.strategy == "easgd") {
      for (Worker& w : workers_) set(w, centre_);
    }
    average_buffers();
  }

  // The mean loss over all test samples.
  double test_loss() {
    auto& model = *workers_[0].model;
    const torch::NoGradGuard no_grad;
    model.eval();
    double sum = 0;
    for (std::uint32_t at = 0; at < test_->size(); at += 100) {
      std::vector<std::uint32_t> which;
      for (std::uint32_t i = at; i < std::min<std::size_t>(at + 100, test_->size()); ++i) which.push_back(i);
      sum += read(*test_, which, [&](const models::Batch& batch) { return model.score(batch).loss; });
    }
    model.train();
    return sum / static_cast<double>(test_->size());
  }

  // Of the step that comes.
  double rate() const {
    const auto epoch_steps = static_cast<double>(steps_per_epoch());
    const auto t = static_cast<double>(step_);
    double lr = c_.lr;
    double risen_until = 0;
    if (c_.scale_lr) {
      const double target = c_.lr * c_.workers * static_cast<double>(c_.accumulate);
      risen_until = static_cast<double>(c_.warmup_steps);
      lr = t >= risen_until ? target : c_.lr + (target - c_.lr) * t / risen_until;
    }
    if (c_.schedule == "step") {
      return lr * std::pow(c_.gamma, std::floor(t / (epoch_steps * static_cast<double>(c_.step_size))));
    }
    if (c_.schedule != "cosine" || t <= risen_until) return lr;
    const double way = (t - risen_until) / (static_cast<double>(c_.steps) - risen_until);
    return c_.min_lr + (lr - c_.min_lr) * (1 + std::cos(std::numbers::pi * way)) / 2;
  }

 private:
  struct Worker {
    std::shared_ptr<models::Model> model;
    std::map<std::string, Tensors> state;  // by slot
  };

  bool replicas_differ() const { return c_.strategy == "local-sgd" || c_.strategy == "easgd"; }
  std::size_t global_batch() const {
    return static_cast<std::size_t>(c_.batch * c_.accumulate) * workers_.size();
  }
  std::size_t steps_per_epoch() const { return (training_->size() + global_batch() - 1) / global_batch(); }

  template <typename Use>
  static double read(const data::Samples& samples, const std::vector<std::uint32_t>& which, const Use& use) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::span<std::byte>> into;
    for (const Field& f : samples.fields()) memory.emplace_back(which.size() * f.bytes());
    for (auto& m : memory) into.emplace_back(m);
    samples.decode(which, into);
    const std::vector<std::span<const std::byte>> fields(into.begin(), into.end());
    return use(as_tensors(fields, samples.fields(), which.size(), false));
  }

  // A worker's part of the gradient of the mean over all samples of the step, times the number of workers.
  Tensors gradient_of(std::size_t worker) {
    const std::size_t samples = training_->size();
    const auto epoch = static_cast<std::size_t>(step_) / steps_per_epoch();
    const auto order = data::epoch_order(c_.seed, epoch, samples);
    const std::size_t begin = static_cast<std::size_t>(step_) % steps_per_epoch() * global_batch();
    const std::size_t all = std::min(samples - begin, global_batch());
    const std::size_t first = begin + all * worker / workers_.size();
    const std::size_t end = begin + all * (worker + 1) / workers_.size();
    auto& model = *workers_[worker].model;
    model.zero_grad();
    if (first < end) {
      const std::vector<std::uint32_t> mine(order.begin() + static_cast<std::ptrdiff_t>(first),
                                            order.begin() + static_cast<std::ptrdiff_t>(end));
      const double part = static_cast<double>(mine.size() * workers_.size()) / static_cast<double>(all);
      read(*training_, mine, [&](const models::Batch& batch) {
        (model.loss(batch) * part).backward();
        if (!by_rows_.empty()) note_rows(model.rows_read(batch));
        return 0;
      });
    }
    Tensors gradients;
    for (const auto& item : model.named_parameters()) {
      const auto& p = item.value();
      gradients[item.key()] = numbers_of(p.grad().defined() ? p.grad() : torch::zeros_like(p));
    }
    return gradients;
  }

  void note_rows(const std::vector<torch::Tensor>& read) {
    const auto rows = read.front().contiguous();  // models with tables read the same rows of each
    for (std::int64_t i = 0; i < rows.numel(); ++i) touched_.insert(rows.data_ptr<std::int64_t>()[i]);
  }

  Tensors clipped(Tensors gradients) const {
    double squares = 0;
    for (const auto& named : gradients) squares += std::pow(length_of(named.second), 2);
    if (c_.clip_norm <= 0 || std::sqrt(squares) <= c_.clip_norm) return gradients;
    for (auto& named : gradients) {
      for (double& g : named.second) g *= c_.clip_norm / std::sqrt(squares);
    }
    return gradients;
  }

  void update(Worker& worker, const Tensors& gradients, double lr) {
    Tensors after = parameters(static_cast<std::size_t>(&worker - workers_.data()));
    for (auto& [name, p] : after) {
      const auto shape = worker.model->named_parameters()[name].sizes();
      const Numbers& all = gradients.at(name);
      const std::string& n = name;
      const auto slot = [&](const char* kind) -> Numbers& {
        auto& numbers = worker.state[kind][n];
        numbers.resize(all.size());
        return numbers;
      };
      if (!by_rows_.contains(name)) {
        apply(p, all, slot, lr, shape.size() < 2);
        continue;
      }
      const auto width = static_cast<std::size_t>(shape[1]);
      for (const std::int64_t row : touched_) {
        const std::size_t at = static_cast<std::size_t>(row) * width;
        for (std::size_t i = at; i < at + width; ++i) {
          apply_one(
              p[i], all[i], [&](const char* kind) -> double& { return slot(kind)[i]; }, lr);
        }
      }
    }
    touched_.clear();
    set(worker, after);
  }

  template <typename Slot>
  void apply(Numbers& p, const Numbers& gradients, const Slot& slot, double lr, bool vector) {
    if (c_.optimizer != "lars" && c_.optimizer != "lamb") {
      for (std::size_t i = 0; i < p.size(); ++i) {
        apply_one(
            p[i], gradients[i], [&](const char* kind) -> double& { return slot(kind)[i]; }, lr);
      }
      return;
    }
    const double decay = vector ? 0 : weight_decay();
    Numbers u = gradients;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (c_.optimizer == "lamb")
        u[i] = adam_direction(gradients[i], slot("exp_avg")[i], slot("exp_avg_sq")[i]);
      u[i] += decay * p[i];
    }
    double rate = 1;
    if (!vector && length_of(p) > 0 && length_of(gradients) > 0) {
      rate = c_.optimizer == "lamb" ? length_of(p) / length_of(u)
                                    : c_.trust * length_of(p) / (length_of(gradients) + decay * length_of(p));
    }
    for (std::size_t i = 0; i < p.size(); ++i) {
      double move = lr * rate * u[i];
      if (c_.optimizer == "lars") move = slot("momentum")[i] = momentum() * slot("momentum")[i] + move;
      p[i] -= move;
    }
  }

  template <typename Slot>
  void apply_one(double& p, double g, const Slot& slot, double lr) {
    const std::string& kind = c_.optimizer;
    if (kind == "adamw") {
      p -= lr * weight_decay() * p;
    } else {
      g += weight_decay() * p;
    }
    if (kind == "sgd") {
      p -= lr * g;
    } else if (kind == "momentum" || kind == "nesterov") {
      double& v = slot("momentum");
      v = momentum() * v + g;
      p -= lr * (kind == "momentum" ? v : g + momentum() * v);
    } else if (kind == "adagrad") {
      double& sum = slot("sum");
      sum += g * g;
      p -= lr * g / (std::sqrt(sum) + 1e-10);
    } else if (kind == "rmsprop") {
      double& mean = slot("square_avg");
      mean = c_.alpha * mean + (1 - c_.alpha) * g * g;
      double move = g / (std::sqrt(mean) + 1e-8);
      if (momentum() > 0) move = slot("momentum") = momentum() * slot("momentum") + move;
      p -= lr * move;
    } else {
      p -= lr * adam_direction(g, slot("exp_avg"), slot("exp_avg_sq"));
    }
  }

  double adam_direction(double g, double& m, double& v) const {
    const auto t = static_cast<double>(step_);
    m = c_.beta1 * m + (1 - c_.beta1) * g;
    v = c_.beta2 * v + (1 - c_.beta2) * g * g;
    const double epsilon = c_.optimizer == "lamb" ? 1e-6 : 1e-8;
    return m / (1 - std::pow(c_.beta1, t)) / (std::sqrt(v / (1 - std::pow(c_.beta2, t))) + epsilon);
  }

  double momentum() const { return c_.momentum >= 0 ? c_.momentum : c_.optimizer == "rmsprop" ? 0 : 0.9; }
  double weight_decay() const {
    if (c_.weight_decay >= 0) return c_.weight_decay;
    return c_.optimizer == "adamw" || c_.optimizer == "lamb" ? 0.01 : 0;
  }

  void meet() {
    const double rate = c_.moving_rate > 0 ? c_.moving_rate : 0.9 / c_.workers;
    std::vector<Tensors> replicas;
    for (std::size_t w = 0; w < workers_.size(); ++w) replicas.push_back(parameters(w));
    for (auto& [name, centre] : centre_) {
      for (std::size_t i = 0; i < centre.size(); ++i) {
        double sum = 0;
        double pulled = 0;
        for (Tensors& replica : replicas) {
          const double apart = replica[name][i] - centre[i];
          sum += replica[name][i];
          pulled += rate * apart;
          replica[name][i] -= rate * apart;
        }
        centre[i] += pulled;
        for (Tensors& replica : replicas) {
          if (c_.strategy == "local-sgd") replica[name][i] = sum / c_.workers;
        }
      }
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) set(workers_[w], replicas[w]);
  }

  static void set(const Worker& worker, const Tensors& values) {
    const torch::NoGradGuard no_grad;
    for (auto& item : worker.model->named_parameters()) {
      const Numbers& numbers = values.at(item.key());
      const auto doubles =
          torch::from_blob(const_cast<double*>(numbers.data()), item.value().sizes(), torch::kFloat64);
      item.value().copy_(doubles);
    }
  }

  const config::TrainConfig c_;
  const std::set<std::string> by_rows_;
  const std::unique_ptr<data::Samples> training_, test_;
  std::vector<Worker> workers_;
  Tensors centre_;
  std::set<std::int64_t> touched_;
  std::int64_t step_ = 0;
};

}  // namespace tutti::train::plain
