// Images that a generative model makes, for people to look at while it trains.
#pragma once

#include <filesystem>

#include "models/model.h"

namespace tutti::train {

// 8 x 8 of them as samples/step-00000100.png in the run folder; nothing for a model that makes none. Throws
// RunError.
void save_generated_images(models::Model& model, const std::filesystem::path& run_folder, std::int64_t step);

}  // namespace tutti::train
