#include "data/criteo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

std::vector<Field> fields(std::int64_t rows) {
  return {{"numbers", DType::f32, {13}}, {"categories", DType::i64, {26}, rows}, {"click", DType::f32, {}}};
}

// A line with `numbers` in the first cells after the label, and categories c0, c1, ...
std::string line(const std::string& label, std::vector<std::string> numbers, std::size_t categories = 26) {
  numbers.resize(13);
  std::string text = label;
  for (const auto& n : numbers) text += "\t" + n;
  for (std::size_t c = 0; c < categories; ++c) text += c == 3 ? "\t" : fmt::format("\tc{}", c);
  return text + "\n";
}

class Criteo : public ::testing::Test {
 protected:
  BothParts open(const std::string& training, std::int64_t rows = 1000) {
    return {CriteoFormat(),
            sources_of({write(scratch_.path() / "train.csv", training).string()},
                       {write(scratch_.path() / "test.csv", line("1", {})).string()}),
            fields(rows)};
  }
  std::string error(const std::string& training) {
    const std::string text = error_of<DataError>([&] { open(training); });
    const std::string path = (scratch_.path() / "train.csv").string() + ": ";
    EXPECT_TRUE(text.starts_with(path)) << text;
    return text.starts_with(path) ? text.substr(path.size()) : text;
  }

  ScratchFolder scratch_;
};

TEST_F(Criteo, NumbersAreLogarithmsAndMissingOnesAreZero) {
  const BothParts parts = open(line("0", {"1", "", "-2", "1382"}) + line("1", {"0"}));
  const auto numbers = decoded<float>(parts[Part::training], 0);
  ASSERT_EQ(numbers.size(), 26u);
  EXPECT_FLOAT_EQ(numbers[0], std::log(2.0F));
  EXPECT_EQ(numbers[1], 0);
  EXPECT_EQ(numbers[2], 0);
  EXPECT_FLOAT_EQ(numbers[3], std::log(1383.0F));
  EXPECT_EQ(numbers[13], 0);
  EXPECT_EQ(decoded<float>(parts[Part::training], 2), (std::vector<float>{0, 1}));
  EXPECT_EQ(decoded<float>(parts[Part::test], 2), std::vector<float>{1});
}

TEST_F(Criteo, CategoriesAreHashedWithTheirColumnIntoTheRowsWanted) {
  const BothParts parts = open(line("0", {}), 131072);
  const auto rows = decoded<std::int64_t>(parts[Part::training], 1);
  ASSERT_EQ(rows.size(), 26u);
  for (std::size_t c = 0; c < 26; ++c) {
    const std::string category = c == 3 ? "" : fmt::format("c{}", c);
    EXPECT_EQ(rows[c], static_cast<std::int64_t>(criteo_row(c, category, 131072)));
  }
  EXPECT_NE(criteo_row(0, "68fd1e64", 131072), criteo_row(1, "68fd1e64", 131072));
  std::set<std::uint64_t> distinct;
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto row = criteo_row(5, fmt::format("{:08x}", i), 1 << 30);
    EXPECT_LT(row, 1U << 30);
    distinct.insert(row);
  }
  EXPECT_EQ(distinct.size(), 1000u);
}

TEST_F(Criteo, NamesWhatIsWrongAndWhere) {
  const std::string good = line("0", {});
  EXPECT_EQ(error(""), "line 1: the file is empty");
  EXPECT_EQ(error("\n"), "line 1: there are no rows");
  EXPECT_EQ(error(good + line("2", {})), "line 2, column 1: label '2', expected 0 or 1");
  EXPECT_EQ(error(good + line("0", {"1", "many"})), "line 2, column 3: 'many', expected a number");
  EXPECT_EQ(error(good + line("0", {}, 25)), "line 2, column 40: the line has 39 cells, expected 40");
}

TEST_F(Criteo, GivesAnyNumberOfRows) {
  const CriteoFormat format;
  EXPECT_EQ(format.native_fields({}), fields(131072));
  EXPECT_TRUE(format.can_give(fields(7)));
  EXPECT_FALSE(format.can_give(fields(0)));
  EXPECT_FALSE(format.can_give(fields(std::int64_t{1} << 33)));
}

}  // namespace
}  // namespace tutti::data
