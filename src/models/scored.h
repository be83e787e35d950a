// Networks of a user's own: they give scores, and the loss is ours.
#pragma once

#include <exception>
#include <filesystem>

#include "models/model.h"

namespace tutti::models {

// What is made of a network's scores.
enum class ScoreLoss {
  cross_entropy,  // a score for each class; the label is one of them
  mse,            // one number; the label is a number, too
  bce,            // one score (logit); the label is 0 or 1
};
// Throws ConfigError that lists the names.
ScoreLoss parse_loss(std::string_view name);

// The last field of a batch is what it learns.
class ScoredModel : public Model {
 public:
  explicit ScoredModel(ScoreLoss loss) : loss_(loss) {}

  // Both throw ConfigError where the scores do not fit the loss.
  torch::Tensor loss(const Batch& batch) override;
  Score score(const Batch& batch) override;

 private:
  virtual torch::Tensor scores(const Batch& batch) = 0;

  const ScoreLoss loss_;
};

// A network that a user's file gives.
struct OwnNetwork {
  std::string_view prefix;  // before the file's name
  std::string_view summary;
  std::int64_t trained = 0;  // parameters
  std::function<std::shared_ptr<Model>()> make;
};
// Takes data as it is. Throws DataError if there is nothing to train.
ModelInfo info_of(const std::filesystem::path& file, ScoreLoss loss, OwnNetwork network);

// What libtorch throws says in its first line what is wrong; the rest is a backtrace.
std::string first_line(const std::exception& e);

// The file's whole name, for workers may be elsewhere. Throws DataError if it is not there.
std::filesystem::path existing_file(const std::filesystem::path& file);

}  // namespace tutti::models
