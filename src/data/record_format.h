// Sets whose samples are read from text into records (records.h).
#pragma once

#include <array>

#include "data/format.h"
#include "data/records.h"

namespace tutti::data {

class RecordFormat : public Format {
 public:
  PlainFiles prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                     const std::filesystem::path& cache) const final;
  std::unique_ptr<Samples> open(std::span<const std::string> files,
                                const std::vector<Field>& wanted) const final;

 private:
  // The records of each part, none of them empty. Throws DataError.
  virtual std::array<Words, 2> read(const PartFiles& sources, const std::vector<Field>& wanted) const = 0;
};

}  // namespace tutti::data
