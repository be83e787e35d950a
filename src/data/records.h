// Samples in files of 32-bit words that every process of a host maps: what the formats of text become, once
// a host. A word is a float, or a whole number from 0 on.
//
//   records    sample i is record i: its fields, one after another, each with as many words as numbers
//   windows    the words are one long text; sample i is the words from i * (n - 1) on, n of them, so that
//              neighbours share one
#pragma once

#include <bit>
#include <string>

#include "base/file.h"
#include "data/plain_file.h"
#include "data/samples.h"

namespace tutti::data {

// Words as they are being gathered.
class Words {
 public:
  void add_number(float x) { words_.push_back(std::bit_cast<std::uint32_t>(x)); }
  void add_index(std::size_t x) { words_.push_back(static_cast<std::uint32_t>(x)); }
  std::size_t size() const { return words_.size(); }

  // A copy in memory that children inherit. Throws RunError.
  PlainFile share() const;

 private:
  std::vector<std::uint32_t> words_;
};

class RecordSamples final : public Samples {
 public:
  RecordSamples(const std::string& file, std::vector<Field> fields);
  std::size_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override;

 private:
  Mapping mapping_;
  std::vector<Field> fields_;
  std::size_t record_ = 0;  // words
  std::size_t size_ = 0;
};

// One field of whole numbers.
class WindowSamples final : public Samples {
 public:
  WindowSamples(const std::string& file, std::vector<Field> fields);
  std::size_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override;

 private:
  Mapping mapping_;
  std::vector<Field> fields_;
  std::size_t size_ = 0;
};

}  // namespace tutti::data
