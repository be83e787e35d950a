// Networks by name, and what can be known of one before it is made. No libtorch here; models/model.h has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/field.h"

namespace tutti::models {

class Model;

// Sums over samples: they add up over batches and workers.
struct Score {
  double loss = 0;
  double samples = 0;
  std::vector<double> counts = {};  // what else the model's figures are made from
};

// A figure of an evaluation.
struct Figure {
  std::string_view name;
  bool small_is_good = false;
  std::function<double(const Score&)> of;
};

// What an evaluation counts beside the loss, and the figures that come of it.
struct Measures {
  std::size_t counts = 0;
  std::vector<Figure> figures;
};

// Counts the samples whose class came out best, and those whose class was among the best five: loss,
// accuracy, top5.
Measures classification();

// The mean loss.
Figure mean_loss();
// The part of the samples that was counted at this place.
Figure share(std::string_view name, std::size_t place);

// What a network can be told. Zeros are the model's own.
struct ModelOptions {
  std::int64_t classes = 0;
  std::int64_t image_size = 0;
  std::int64_t channels = 0;
  std::int64_t inputs = 0;      // numbers of a sample
  std::int64_t vocabulary = 0;  // from here on: language models
  std::int64_t embedding = 0;
  std::int64_t hidden = 0;
  std::int64_t unroll = 0;   // tokens that a sample predicts
  std::int64_t sampled = 0;  // words that stand for the whole vocabulary in a training step
  bool operator==(const ModelOptions&) const = default;
};

struct ModelInfo {
  std::string name;
  std::string summary;
  ModelOptions own = {};         // what is zero here is an option that the model does not have
  std::int64_t least_image = 0;  // the smallest image size that leaves something to every layer
  std::int64_t parameters = 0;   // with its own options; checked when the model is made
  double flops_per_sample = 0;   // with its own options; forward, multiply and add counted apart
  std::string data;              // a data set that fits
  bool channels_last = false;    // the memory format that is faster on CPUs
  std::size_t phases = 1;        // of a step
  bool has_tables = false;       // embeddings, of which a batch reads some rows (Model::rows_read)
  Measures measures = classification();
  // Both are called with every option of the model set. Without the first it takes the data as it is.
  std::function<std::vector<Field>(const ModelOptions&)> takes;
  std::function<std::shared_ptr<Model>(const ModelOptions&)> build;

  // The model's own options where the given ones are zero. Throws ConfigError for an option that it does not
  // have, a negative one, and an image that is too small.
  ModelOptions complete(const ModelOptions& options) const;
  bool takes_any_data() const { return !takes; }
  // What it takes, if not any data; the last is what it learns. Throws as `complete` does.
  std::vector<Field> fields(const ModelOptions& options) const { return takes(complete(options)); }
  // A fresh network with weights drawn from torch's generator. Throws as `complete` does.
  std::shared_ptr<Model> make(const ModelOptions& options) const { return build(complete(options)); }
};

const std::vector<ModelInfo>& all_models();

inline constexpr std::string_view kCrossEntropy = "cross-entropy";

// The file of a network of one's own, as named; empty: the name is of another.
std::filesystem::path own_file(std::string_view name);

// One of them, or a network of one's own, of whose scores `loss` is made: "script:FILE" (models/script.h) or
// "plugin:FILE" (models/plugin.h).
// Throws ConfigError that lists the names, DataError if the file cannot be used.
ModelInfo find_model(std::string_view name, std::string_view loss = kCrossEntropy);

}  // namespace tutti::models
