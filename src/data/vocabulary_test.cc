#include "data/vocabulary.h"

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/scratch_folder.h"

namespace tutti::data {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  Words words;
  for_each_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(WordsOfAText, AreSplitAtWhiteSpaceAndLinesHaveAnEnd) {
  EXPECT_EQ(words_of(" a\tb  c \n\n d"), (Words{"a", "b", "c", "<eos>", "<eos>", "d", "<eos>"}));
  EXPECT_EQ(words_of("\xc3\xa4 x\r\n"), (Words{"\xc3\xa4", "x", "<eos>"}));
  EXPECT_EQ(words_of(""), Words());
}

TEST(Vocabulary, IsSortedByFrequencyThenSpelling) {
  const auto v = Vocabulary::of("b a c\nc <unk> d\nc <unk> a b\n");
  EXPECT_EQ(v.words(), (Words{"<eos>", "c", "<unk>", "a", "b", "d"}));
  EXPECT_EQ(v.number("c"), 1u);
  EXPECT_EQ(v.number("nowhere"), 2u) << "<unk>";
}

TEST(Vocabulary, HasTheUnknownWordEvenIfTheTextHasNot) {
  const auto v = Vocabulary::of("a b\n");
  EXPECT_EQ(v.words(), (Words{"<eos>", "a", "b", "<unk>"}));
  EXPECT_EQ(v.number("c"), 3u);
}

TEST(Vocabulary, CutKeepsTheMostFrequentAndTheUnknownWord) {
  auto v = Vocabulary::of("a a a b b c\n");
  v.cut(10);
  EXPECT_EQ(v.size(), 5u);
  v.cut(3);
  EXPECT_EQ(v.words(), (Words{"a", "b", "<unk>"}));
  EXPECT_EQ(v.number("c"), 2u);
  EXPECT_EQ(v.number("<eos>"), 2u);
}

class VocabularyCache : public ::testing::Test {
 protected:
  std::filesystem::path file() const {
    return cache_ / "vocabularies" / (sha256_hex(std::as_bytes(std::span(text_))) + ".txt");
  }
  Words cached() const { return Vocabulary::cached(text_, cache_).words(); }

  ScratchFolder scratch_;
  std::filesystem::path cache_ = scratch_.path() / "cache";
  std::string text_ = "b a c\nc d\n";
  Words words_ = Vocabulary::of(text_).words();
};

TEST_F(VocabularyCache, IsWrittenUnderTheDigestAndReadAgain) {
  EXPECT_EQ(cached(), words_);
  EXPECT_EQ(read_file(file()), "6 words\n<eos>\nc\na\nb\nd\n<unk>\n");
  // Still whole, but other than the text's own: so we see that it is read.
  write_file_atomically(file(), std::string_view("2 words\nx\n<unk>\n"));
  EXPECT_EQ(cached(), (Words{"x", "<unk>"}));
}

TEST_F(VocabularyCache, IsMadeAnewIfItIsDamaged) {
  for (const char* damage :
       {"", "6 words\n<eos>\nc\na\nb\n", "1 words\nx\n", "nonsense", "6 words\n<eos>\nc\na\nb\nd\n<unk>"}) {
    cached();
    write_file_atomically(file(), std::string_view(damage));
    EXPECT_EQ(cached(), words_) << damage;
    EXPECT_EQ(read_file(file()), "6 words\n<eos>\nc\na\nb\nd\n<unk>\n") << damage;
  }
}

TEST_F(VocabularyCache, IsDoneWithoutWhereItCannotBeWritten) {
  cache_ = "/proc/nothing";
  EXPECT_EQ(cached(), words_);
  cache_ = "";
  EXPECT_EQ(cached(), words_);
}

}  // namespace
}  // namespace tutti::data
