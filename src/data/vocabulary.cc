#include "data/vocabulary.h"

#include <algorithm>
#include <optional>

#include "base/crypto.h"
#include "base/error.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

// A file of the cache: how many words there are, then a word a line.
std::string as_file(const std::vector<std::string>& words) {
  std::string text = fmt::format("{} words\n", words.size());
  for (const std::string& word : words) text += word + '\n';
  return text;
}

std::optional<std::vector<std::string>> words_in(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    const std::string text = read_file(file);
    LineReader lines(text);
    lines.next();
    std::vector<std::string> words;
    while (lines.next()) words.emplace_back(lines.line());
    if (as_file(words) != text) return std::nullopt;
    if (std::ranges::find(words, kUnknownWord) == words.end()) return std::nullopt;
    return words;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void keep(const fs::path& file, const std::vector<std::string>& words) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return;
  try {
    write_file_atomically(file, as_file(words));
  } catch (const RunError&) {  // it will be counted again next time
  }
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  number_words();
}

Vocabulary Vocabulary::of(std::string_view text) {
  std::unordered_map<std::string_view, std::uint64_t> counts = {{kUnknownWord, 0}};
  for_each_word(text, [&](std::string_view word) { ++counts[word]; });
  std::vector<std::pair<std::string_view, std::uint64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> words;
  for (const auto& entry : sorted) words.emplace_back(entry.first);
  return Vocabulary(std::move(words));
}

Vocabulary Vocabulary::cached(std::string_view text, const fs::path& cache) {
  if (cache.empty()) return of(text);
  const fs::path file = cache / "vocabularies" / (sha256_hex(std::as_bytes(std::span(text))) + ".txt");
  if (auto words = words_in(file)) return Vocabulary(std::move(*words));
  Vocabulary vocabulary = of(text);
  keep(file, vocabulary.words());
  return vocabulary;
}

void Vocabulary::cut(std::size_t most) {
  TUTTI_CHECK(most > 0);
  if (words_.size() <= most) return;
  words_.resize(most);
  if (std::ranges::find(words_, kUnknownWord) == words_.end()) words_.back() = kUnknownWord;
  number_words();
}

void Vocabulary::number_words() {
  numbers_.clear();
  for (std::uint32_t i = 0; i < words_.size(); ++i) numbers_.emplace(words_[i], i);
  unknown_ = numbers_.at(std::string(kUnknownWord));
}

std::uint32_t Vocabulary::number(std::string_view word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? unknown_ : found->second;
}

}  // namespace tutti::data
