// Texts for language models: a sample is a window of words, and neighbours share one word, so that every word
// but the first is to be predicted once. The vocabulary is that of the training part.
#pragma once

#include "data/format.h"
#include "data/vocabulary.h"

namespace tutti::data {

class TextFormat final : public Format, public Names {
 public:
  enum class Parts {
    files,  // one source a part
    lines,  // one source, among those of the training part: nine tenths of its lines, and the rest
  };
  explicit TextFormat(Parts parts) : parts_(parts) {}

  std::vector<Field> native_fields(const PartFiles& sources) const override;
  // Any length of windows; and any number of words, of which the rarest become <unk> if they are too many.
  bool can_give(const std::vector<Field>& wanted) const override;
  PlainFiles prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                     const std::filesystem::path& cache) const override;
  std::unique_ptr<Samples> open(std::span<const std::string> files,
                                const std::vector<Field>& wanted) const override;
  std::vector<std::string> names(const PartFiles& sources) const override;

 private:
  Parts parts_;
};

}  // namespace tutti::data
