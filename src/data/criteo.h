// Criteo's click-through data: lines without a header, cells between tabs: the label (1: clicked), 13 whole
// numbers, 26 categories written as hashes. Cells may be empty where a value is not known.
//
// A number x becomes log(1 + max(x, 0)), and 0 if it is not known. Categories of all columns are hashed
// together into as many rows as are wanted; not known is a category of its own in each column.
#pragma once

#include "data/record_format.h"

namespace tutti::data {

class CriteoFormat final : public RecordFormat {
 public:
  std::vector<Field> native_fields(const PartFiles& sources) const override;
  bool can_give(const std::vector<Field>& wanted) const override;

 private:
  // One source a part.
  std::array<Words, 2> read(const PartFiles& sources, const std::vector<Field>& wanted) const override;
};

// The row of a category, below `rows`; `column` counts categories from 0.
std::uint64_t criteo_row(std::size_t column, std::string_view category, std::uint64_t rows);

}  // namespace tutti::data
