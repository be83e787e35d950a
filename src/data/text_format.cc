#include "data/text_format.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "data/own_data.h"
#include "data/records.h"

namespace tutti::data {
namespace {

constexpr std::int64_t kUnroll = 35;  // unless another is wanted

std::vector<Field> fields_of(std::int64_t window, std::int64_t words) {
  return {{"tokens", DType::i64, {window}, words}};
}

// The texts of both parts, which may lie in one file.
class Texts {
 public:
  Texts(const PartFiles& sources, TextFormat::Parts parts) {
    files_.emplace_back(sources[Part::training].at(0));
    texts_[0] = files_[0].text();
    if (parts == TextFormat::Parts::lines) {
      split();
    } else {
      files_.emplace_back(sources[Part::test].at(0));
      texts_[1] = files_[1].text();
    }
  }

  std::string_view operator[](Part part) const { return texts_[static_cast<std::size_t>(part)]; }
  const std::string& path(Part part) const {
    return files_[std::min(static_cast<std::size_t>(part), files_.size() - 1)].path();
  }

 private:
  void split() {
    const std::string_view whole = texts_[0];
    std::size_t lines = 0;
    for (LineReader reader(whole); reader.next();) ++lines;
    LineReader reader(whole);
    for (std::size_t i = 0; i < lines * 9 / 10; ++i) reader.next();
    texts_ = {whole.substr(0, whole.size() - reader.rest().size()), reader.rest()};
    if (texts_[0].empty()) {
      throw DataError(fmt::format("{}: line {}: the text ends after {} lines, too few for two parts",
                                  files_[0].path(), lines, lines));
    }
  }

  std::vector<TextFile> files_;
  std::array<std::string_view, 2> texts_;
};

Words words_of(std::string_view text, const Vocabulary& vocabulary) {
  Words words;
  for_each_word(text, [&](std::string_view word) { words.add_index(vocabulary.number(word)); });
  return words;
}

}  // namespace

std::vector<Field> TextFormat::native_fields(const PartFiles& sources) const {
  std::size_t words = 0;
  if (!sources[Part::training].empty()) words = Vocabulary::of(Texts(sources, parts_)[Part::training]).size();
  return fields_of(kUnroll + 1, static_cast<std::int64_t>(words));
}

std::vector<std::string> TextFormat::names(const PartFiles& sources) const {
  return Vocabulary::of(Texts(sources, parts_)[Part::training]).words();
}

bool TextFormat::can_give(const std::vector<Field>& wanted) const {
  if (wanted.empty() || wanted[0].shape.size() != 1) return false;
  const std::int64_t window = wanted[0].shape[0];
  const std::int64_t words = wanted[0].below;
  return window > 1 && words > 0 && words <= std::numeric_limits<std::uint32_t>::max() &&
         wanted == fields_of(window, words);
}

PlainFiles TextFormat::prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                               const std::filesystem::path& cache) const {
  const Texts texts(sources, parts_);
  Vocabulary vocabulary = Vocabulary::cached(texts[Part::training], cache);
  vocabulary.cut(static_cast<std::size_t>(wanted[0].below));
  PlainFiles prepared;
  for (const Part part : kParts) {
    const Words words = words_of(texts[part], vocabulary);
    if (words.size() < wanted[0].count()) {
      throw DataError(fmt::format("{}: the {} part has {} words, expected at least {}", texts.path(part),
                                  part == Part::training ? "training" : "test", words.size(),
                                  wanted[0].count()));
    }
    prepared.add(part, words.share());
  }
  return prepared;
}

std::unique_ptr<Samples> TextFormat::open(std::span<const std::string> files,
                                          const std::vector<Field>& wanted) const {
  return std::make_unique<WindowSamples>(files[0], wanted);
}

namespace {

DatasetInfo text_dataset(std::string_view path, const OwnDataOptions& /*options*/) {
  return own_dataset("text:" + std::string(path), "a text of your own", {{std::string(path)}},
                     std::make_shared<TextFormat>(TextFormat::Parts::lines));
}

}  // namespace

OwnDataKind text_data() {
  return {"text:", "text:FILE", "a text, for language models", text_dataset};
}

}  // namespace tutti::data
