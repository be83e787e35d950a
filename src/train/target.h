// When a run has learned enough, and how all its workers come to know.
#pragma once

#include <optional>
#include <string>

#include "config/train_config.h"
#include "models/model.h"
#include "net/transport.h"
#include "train/evaluate.h"

namespace tutti::train {

// A figure of the model's and the value that it shall reach.
struct Target {
  std::string figure;
  double value = 0;
  bool small_is_good = false;

  bool reached_by(const Evaluation& evaluation) const;
};

// What --until asks for, if anything. Throws ConfigError that lists the model's figures if it is none of
// them.
std::optional<Target> target_of(const config::TrainConfig& config, const models::ModelInfo& model);

// How workers that do not keep step hear whether to end before their time: rank 0 tells each of them once, at
// the latest when its own steps are done. The others look between steps, and do not end without its word, so
// that nothing else is on the way between workers when they meet.
class EndCall {
 public:
  // `workers` outlives it.
  explicit EndCall(net::Transport& workers) : workers_(workers) {}

  // Rank 0: to all others. The first call counts.
  void tell(bool end_now);
  // The others: whether rank 0 has said to end now. Never blocks.
  bool heard();
  // Everyone, after the last step: blocks until rank 0's word has come. Throws PeerLost, Timeout.
  void conclude();

 private:
  bool receive();

  net::Transport& workers_;
  bool said_ = false;  // told or heard
};

}  // namespace tutti::train
