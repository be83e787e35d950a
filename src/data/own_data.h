// Data of one's own, and what its owner says of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/catalogue.h"

namespace tutti::data {

struct OwnDataOptions {
  std::string label = {};                  // csv: the column that is to be learned; empty: the last
  std::vector<std::string> features = {};  // csv: the columns to learn it from; none: all others
  double test_share = 0.2;                 // of the samples, unless there is a file or folder for them
  std::string test_file = {};              // csv
};

// A kind of one's own data: what people write before its path.
struct OwnDataKind {
  std::string_view prefix;    // "csv:"
  std::string_view spelling;  // as people are shown it
  std::string_view title;
  DatasetInfo (*make)(std::string_view path, const OwnDataOptions& options);
};
std::span<const OwnDataKind> own_data_kinds();

// The files as a set with this format. Their paths are absolute, so that they are the same under any data
// root. Throws DataError if one cannot be read.
struct OwnFile {
  std::string path;
  Part part = Part::training;
};
DatasetInfo own_dataset(std::string name, std::string title, const std::vector<OwnFile>& files,
                        std::shared_ptr<const Format> format);

// Which part a sample belongs to where both come from the same files: drawn by its number alone, so that
// samples stay where they are when others are added behind them.
Part part_of(std::uint64_t sample, double test_share);

}  // namespace tutti::data
