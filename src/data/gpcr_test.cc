#include "data/gpcr.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class Gpcr : public ::testing::Test {
 protected:
  BothParts open(const std::string& training, const std::string& test) {
    return {format_,
            sources_of({write(scratch_.path() / "train.txt", training).string()},
                       {write(scratch_.path() / "test.txt.gz", test).string()}),
            format_.native_fields({})};
  }
  std::string error(const std::string& training) {
    const std::string text = error_of<DataError>([&] { open(training, "0\tA\n"); });
    const std::string path = (scratch_.path() / "train.txt").string() + ": ";
    EXPECT_TRUE(text.starts_with(path)) << text;
    return text.starts_with(path) ? text.substr(path.size()) : text;
  }

  ScratchFolder scratch_;
  GpcrFormat format_;
};

TEST_F(Gpcr, LettersBecomeNumbersAndTheRestIsPadding) {
  const BothParts parts = open("3\tACDEFGHIKLMNPQRSTVWYXOUBZJ_\n85\tMA\n", "0\tW\n");
  ASSERT_EQ(parts[Part::training].size(), 2u);
  const auto letters = decoded<std::int64_t>(parts[Part::training], 0, {0});
  ASSERT_EQ(letters.size(), 1000u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(letters[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(std::vector<std::int64_t>(letters.begin() + 20, letters.begin() + 28),
            (std::vector<std::int64_t>{20, 20, 20, 21, 22, 23, 24, 24}));
  EXPECT_EQ(letters.back(), 24);
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 0, {1})[1], 0);
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 1), (std::vector<std::int64_t>{3, 85}));
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::test], 0)[0], 18);
}

TEST_F(Gpcr, NamesWhatIsWrongAndWhere) {
  const std::string good = "12\tMA\n";
  EXPECT_EQ(error(""), "line 1: the file is empty");
  EXPECT_EQ(error("\n\n"), "line 1: there are no sequences");
  EXPECT_EQ(error(good + "12\tMA?A\n"), "line 2, column 6: '?' is no amino acid");
  EXPECT_EQ(error(good + "12\tma\n"), "line 2, column 4: 'm' is no amino acid");
  EXPECT_EQ(error(good + "12\t" + std::string(1001, 'A') + "\n"),
            "line 2, column 1004: the sequence has 1001 letters, expected at most 1000");
  EXPECT_EQ(error(good + "x\tMA\n"), "line 2, column 1: label 'x', expected a number from 0 to 85");
  EXPECT_EQ(error(good + "86\tMA\n"), "line 2, column 1: label '86', expected a number from 0 to 85");
  EXPECT_EQ(error(good + "-1\tMA\n"), "line 2, column 1: label '-1', expected a number from 0 to 85");
  EXPECT_EQ(error(good + "MA\n"), "line 2, column 2: the line has 1 cells, expected 2");
}

}  // namespace
}  // namespace tutti::data
