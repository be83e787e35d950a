// Tables of one's own: comma-separated values with a header.
//
// A column of numbers is a feature, standardised by mean and deviation of the training part. A column with
// any other text in it is a category: a feature of 0 or 1 for each text that the training part has. The
// label's texts, in order, are the classes. Cells may be quoted ("a, b", with "" for a quote); a quoted cell
// ends in its line.
#pragma once

#include <string>
#include <vector>

#include "data/record_format.h"

namespace tutti::data {

struct CsvColumns {
  std::string label = {};                  // empty: the last column
  std::vector<std::string> features = {};  // none: all but the label
};

class CsvFormat final : public RecordFormat, public Names {
 public:
  // Without a source for the test part so much of the first one's rows is it.
  CsvFormat(CsvColumns columns, double test_share) : columns_(std::move(columns)), test_share_(test_share) {}

  // {"features", n}, {"label", below the number of classes}; without sources nothing is known.
  std::vector<Field> native_fields(const PartFiles& sources) const override;
  bool can_give(const std::vector<Field>& wanted) const override;
  std::vector<std::string> names(const PartFiles& sources) const override;

 private:
  std::array<Words, 2> read(const PartFiles& sources, const std::vector<Field>& wanted) const override;

  CsvColumns columns_;
  double test_share_;
};

}  // namespace tutti::data
