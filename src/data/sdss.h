// Stars, galaxies and quasars of the Sloan Digital Sky Survey, from one CSV file with a header.
//
// Columns are found by their names, so any others may stand between them. Features are the magnitudes in five
// bands, and the redshift if six are wanted, standardised by mean and deviation of the training part.
#pragma once

#include <cstdint>

#include "data/record_format.h"

namespace tutti::data {

class SdssFormat final : public RecordFormat {
 public:
  std::vector<Field> native_fields(const PartFiles& sources) const override;
  bool can_give(const std::vector<Field>& wanted) const override;

 private:
  // One source, among those of the training part, which both parts are taken from.
  std::array<Words, 2> read(const PartFiles& sources, const std::vector<Field>& wanted) const override;
};

// Which part a row belongs to, counted from 0 after the header: four of five are for training, drawn by the
// row's number alone, so that they stay what they are when rows are added.
Part sdss_part(std::uint64_t row);

}  // namespace tutti::data
