// A data set to be looked at: what a sample consists of, how many there are of each class, what the numbers
// are like, and a few samples drawn as text.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/catalogue.h"

namespace tutti::data {

// Of all numbers of a field, over the training part.
struct NumberSummary {
  std::string field;
  double mean = 0;
  double deviation = 0;
  double least = 0;
  double most = 0;
};

struct Overview {
  std::vector<Field> fields;                         // as the set has them
  std::array<std::size_t, 2> samples{};              // by part
  std::vector<std::array<std::size_t, 2>> by_class;  // and part; none where samples have no label
  std::vector<std::string> names;                    // of classes or words, where they are known
  std::vector<NumberSummary> numbers;                // of images with pixels from 0 to 1
};

struct DrawingStyle {
  std::size_t samples = 3;  // of as many classes as there are
  bool blocks = false;      // in shades of Unicode, else in ASCII
};

class Show {
 public:
  // Prepares the set and decodes all samples. Throws DataError.
  Show(const DatasetInfo& info, const LocatedDataset& located, const std::filesystem::path& cache);

  const Overview& overview() const { return overview_; }
  // In lines of at most 80 columns, as far as names allow. Images are drawn, two rows of pixels in a line,
  // each between its darkest and its brightest pixel; other samples are written out.
  std::string text(const DrawingStyle& style) const;

 private:
  void count(Part part);
  std::string name_of(std::size_t number) const;
  std::string class_table() const;
  std::string drawn_samples(const DrawingStyle& style) const;
  std::string caption(std::uint32_t sample) const;
  std::vector<std::string> draw_image(std::uint32_t sample, bool blocks) const;
  std::string write_out(std::uint32_t sample) const;

  std::string title_;
  Overview overview_;
  PlainFiles plain_;
  std::array<std::unique_ptr<Samples>, 2> samples_;  // by part
  std::vector<std::uint32_t> examples_;              // of the training part, the first of each class
};

}  // namespace tutti::data
