// The entries of the catalogue: published sets, with the digests of their files.
#pragma once

#include "data/catalogue.h"

namespace tutti::data {

std::vector<DatasetInfo> published_datasets();

}  // namespace tutti::data
