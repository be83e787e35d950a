// The entries of the catalogue: published sets, with the digests of their files.
#pragma once

#include "data/catalogue.h"

namespace tutti::data {

std::vector<DatasetInfo> published_datasets();

// A text of one's own, of which nine tenths are for training. Throws DataError if it cannot be read.
DatasetInfo text_dataset(const std::filesystem::path& file);

}  // namespace tutti::data
