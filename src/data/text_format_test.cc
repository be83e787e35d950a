#include "data/text_format.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/open.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;
using Numbers = std::vector<std::int64_t>;

std::vector<Field> fields(std::int64_t window, std::int64_t words) {
  return {{"tokens", DType::i64, {window}, words}};
}

class Text : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text) {
    return write(scratch_.path() / name, text).string();
  }
  BothParts open(const std::string& training, const std::string& test, const std::vector<Field>& wanted) {
    return {format_, sources_of({put("train.txt", training)}, {put("test.txt", test)}), wanted};
  }
  std::string error(const std::string& training, const std::string& test) {
    const std::string text = error_of<DataError>([&] { open(training, test, fields(4, 100)); });
    const std::string folder = scratch_.path().string() + "/";
    EXPECT_TRUE(text.starts_with(folder)) << text;
    return text.starts_with(folder) ? text.substr(folder.size()) : text;
  }

  ScratchFolder scratch_;
  TextFormat format_{TextFormat::Parts::files};
};

TEST_F(Text, NeighbouringWindowsShareAWord) {
  // a: 0, b: 1, <eos>: 2, <unk>: 3
  const BothParts parts = open("a a a b b b a\nb a\n", "a z b a", fields(4, 100));
  ASSERT_EQ(parts[Part::training].size(), 3u) << "11 words";
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 0, {0}), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 0, {2, 1}), (Numbers{0, 2, 1, 0, 1, 1, 1, 0}));
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::test], 0), (Numbers{0, 3, 1, 0})) << "z is not known";
}

TEST_F(Text, RareWordsAreUnknownWhereFewerAreWanted) {
  const BothParts parts = open("a a a b b c\n", "c b a a", fields(3, 2));
  for (const Part part : kParts) {
    for (const auto word : decoded<std::int64_t>(parts[part], 0)) EXPECT_LT(word, 2);
  }
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::test], 0, {0}), (Numbers{1, 1, 0}));
}

TEST_F(Text, TheVocabularysSizeIsKnownFromTheFiles) {
  EXPECT_EQ(format_.native_fields({}), fields(36, 0));
  EXPECT_EQ(format_.native_fields(sources_of({put("a", "x y\ny")}, {put("b", "x")})), fields(36, 4));
  EXPECT_TRUE(format_.can_give(fields(2, 1)));
  EXPECT_FALSE(format_.can_give(fields(1, 10)));
  EXPECT_FALSE(format_.can_give(fields(36, 0)));
}

TEST_F(Text, NamesWhatIsWrong) {
  EXPECT_EQ(error("", "a b c"), "train.txt: line 1: the file is empty");
  EXPECT_EQ(error("a b c", ""), "test.txt: line 1: the file is empty");
  EXPECT_EQ(error("a b", "a b c"), "train.txt: the training part has 3 words, expected at least 4");
  EXPECT_EQ(error("a b c", "a b"), "test.txt: the test part has 3 words, expected at least 4");
}

TEST_F(Text, OnesOwnTextIsSplitByLines) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("w{}\n", i);
  const DatasetInfo info = find_dataset("text:" + put("mine.txt", text));
  const std::vector roots = {scratch_.path() / "nothing"};
  const auto wanted = fields(2, 100);
  const auto plain = prepare(info, locate(info, roots), wanted);
  const auto training = data::open(info, plain.files[Part::training], wanted);
  const auto test = data::open(info, plain.files[Part::test], wanted);
  EXPECT_EQ(training->size(), 2u * 18 - 1) << "18 words, 18 ends";
  EXPECT_EQ(decoded<std::int64_t>(*test, 0), (Numbers{19, 0, 0, 19, 19, 0})) << "unknown words and ends";
}

TEST_F(Text, OnesOwnTextNeedsAFileAndTwoParts) {
  EXPECT_NE(error_of<DataError>([] { find_dataset("text:/no/such/file"); }).find("/no/such/file"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>([] { find_dataset("text:"); }), "");
  const TextFormat by_lines(TextFormat::Parts::lines);
  const auto sources = sources_of({put("one.txt", "a b c d e f\n")}, {});
  EXPECT_EQ(error_of<DataError>([&] { by_lines.prepare(sources, fields(2, 10), {}); }),
            (scratch_.path() / "one.txt").string() +
                ": line 1: the text ends after 1 lines, too few for two parts");
}

}  // namespace
}  // namespace tutti::data
