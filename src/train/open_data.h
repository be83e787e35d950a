// The samples of a run, from files or made up.
#pragma once

#include <memory>
#include <vector>

#include "data/samples.h"
#include "train/prepare.h"

namespace tutti::train {

using data::Part;

// Data that is made up to fit the model, for `--data synthetic`.
inline constexpr std::string_view kSynthetic = "synthetic";
inline constexpr std::size_t kSyntheticSamples[] = {20'000, 2'000};  // by Part

// What its samples consist of. Throws ConfigError.
std::vector<Field> fields_of(const Setup& setup);

// Throws DataError.
std::unique_ptr<data::Samples> open_samples(const Setup& setup, Part part);

// SHA-256 over the content of all plain files, whatever they are called and wherever they lie; of data that
// is made up, over what it is made from. Throws DataError.
std::string digest_of_data(const Setup& setup);

// SHA-256 of the file of a network of one's own; empty for one of ours. Throws DataError.
std::string digest_of_model(const config::TrainConfig& config);

}  // namespace tutti::train
