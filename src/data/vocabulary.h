// The words of a text and their numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text_file.h"

namespace tutti::data {

inline constexpr std::string_view kEndOfLine = "<eos>";
inline constexpr std::string_view kUnknownWord = "<unk>";

// Calls `use` with every word of the text: what white space separates, and <eos> at the end of each line.
template <class Use>
void for_each_word(std::string_view text, Use&& use) {
  constexpr std::string_view kWhite = " \t\v\f\r";
  for (LineReader lines(text); lines.next();) {
    std::string_view rest = lines.line();
    for (auto at = rest.find_first_not_of(kWhite); at != std::string_view::npos;
         at = rest.find_first_not_of(kWhite)) {
      rest.remove_prefix(at);
      const std::string_view word = rest.substr(0, rest.find_first_of(kWhite));
      use(word);
      rest.remove_prefix(word.size());
    }
    use(kEndOfLine);
  }
}

// Words by number, the most frequent first, those as frequent as each other by spelling. Has <unk>, last if
// the text it was made from does not.
class Vocabulary {
 public:
  static Vocabulary of(std::string_view text);

  // The same, kept in the folder `cache` under the text's digest. A copy there that is damaged is made anew;
  // a folder that cannot be written, or is empty, is done without.
  static Vocabulary cached(std::string_view text, const std::filesystem::path& cache);

  // Keeps the `most` most frequent words and, among them, <unk>.
  void cut(std::size_t most);

  const std::vector<std::string>& words() const { return words_; }
  std::size_t size() const { return words_.size(); }
  std::uint32_t number(std::string_view word) const;  // of <unk> for a word that is not among them

 private:
  explicit Vocabulary(std::vector<std::string> words);
  void number_words();

  std::vector<std::string> words_;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::uint32_t unknown_ = 0;
};

}  // namespace tutti::data
