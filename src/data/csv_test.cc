#include "data/csv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/own_data.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class Csv : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text) {
    return write(scratch_.path() / name, text).string();
  }
  // With a second text that is the test part.
  BothParts open(const std::string& training, const std::string& test, const CsvColumns& columns = {}) {
    const CsvFormat format(columns, 0.2);
    const auto sources = sources_of({put("a.csv", training)}, {put("b.csv", test)});
    return {format, sources, format.native_fields(sources)};
  }
  // Without the folder.
  std::string error(const std::string& text, const CsvColumns& columns = {}, double share = 0.5) {
    const auto sources = sources_of({put("a.csv", text)}, {});
    std::string said = error_of<DataError>([&] { CsvFormat(columns, share).native_fields(sources); });
    const std::string folder = scratch_.path().string() + "/";
    EXPECT_TRUE(said.starts_with(folder)) << said;
    return said.substr(std::min(said.size(), folder.size()));
  }
  ScratchFolder scratch_;
};

TEST_F(Csv, NumbersAreStandardisedAndTextsAreCategories) {
  const auto parts = open(
      "size,colour,kind\n"
      "1,red,b\n"
      "3,\"light, \"\"blue\"\"\",a\n"
      "5,red,b\r\n"
      "\n",
      "size,colour,kind\n3,green,a\n");
  ASSERT_EQ(parts[Part::training].fields()[0].shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(parts[Part::training].fields()[1].below, 2);
  const auto unit = static_cast<float>(2 / std::sqrt(8.0 / 3));
  // Categories by the alphabet: light "blue", red.
  EXPECT_EQ(decoded<float>(parts[Part::training], 0), (std::vector<float>{-unit, 0, 1, 0, 1, 0, unit, 0, 1}));
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 1), (std::vector<std::int64_t>{1, 0, 1}));
  // By the training part's numbers; a colour that it does not have is none.
  EXPECT_EQ(decoded<float>(parts[Part::test], 0), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::test], 1), std::vector<std::int64_t>{0});
}

TEST_F(Csv, LabelAndFeaturesAreChosenByName) {
  const std::string text = "x,y,z\n1,9,100\n2,10,200\n4,9,300\n";
  const auto parts = open(text, text, {.label = "y", .features = {"z"}});
  EXPECT_EQ(parts[Part::training].fields()[0].shape, std::vector<std::int64_t>{1});
  // Whole numbers are classes in their order: 9 before 10.
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 1), (std::vector<std::int64_t>{0, 1, 0}));
  const auto z = decoded<float>(parts[Part::training], 0);
  EXPECT_FLOAT_EQ(z[0], -z[2]);
  EXPECT_EQ(z[1], 0);
}

TEST_F(Csv, BlanksSignsAndMarksAreNoPartOfACell) {
  const auto parts = open("\xEF\xBB\xBFx, y ,z\n+1, 2 ,a\n3, 4,\" b \"\n", "\xEF\xBB\xBFx, y ,z\n1,2,a\n",
                          {.label = "z", .features = {"x", "y"}});
  EXPECT_EQ(decoded<float>(parts[Part::training], 0), (std::vector<float>{-1, -1, 1, 1}));
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 1),
            (std::vector<std::int64_t>{1, 0}));  // " b " before a
}

TEST_F(Csv, SmallSpreadAroundALargeNumberIsStandardisedToo) {
  const std::string text = "x,y\n1700000000,a\n1700000010,b\n1700000020,a\n1700000030,b\n";
  const auto x = decoded<float>(open(text, text)[Part::training], 0);
  EXPECT_NEAR(x[3], 15 / std::sqrt(125.0), 1e-4);
}

TEST_F(Csv, GapsAmongNumbersAreNoCategories) {
  const std::string text = "a,b\n1,x\n2,y\nNA,x\n4,y\n5,x\n6,y\n";
  EXPECT_NE(error_of<DataError>([&] {
              open(text, text);
            }).find("line 4, column a: 'NA' is no number, as most of the column are"),
            std::string::npos);
}

TEST_F(Csv, AColumnThatIsAlwaysTheSameIsZero) {
  const std::string text = "x,y\n0.1,a\n0.1,b\n0.1,a\n";
  for (const float x : decoded<float>(open(text, text)[Part::training], 0)) EXPECT_NEAR(x, 0, 1e-6);
}

TEST_F(Csv, RowsAreSplitByTheirNumberAlone) {
  std::string text = "x,y\n";
  std::size_t tested = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    text += fmt::format("{},{}\n", i, i % 2);
    tested += part_of(i, 0.3) == Part::test ? 1 : 0;
  }
  const CsvFormat format({}, 0.3);
  const auto sources = sources_of({put("a.csv", text)}, {});
  const BothParts parts(format, sources, format.native_fields(sources));
  EXPECT_EQ(parts[Part::test].size(), tested);
  EXPECT_EQ(parts[Part::training].size(), 1000 - tested);
  EXPECT_NEAR(static_cast<double>(tested), 300, 45);
}

TEST_F(Csv, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_EQ(error("a,b\n1,x\n2,y\n", {.label = "c"}),
            "a.csv: line 1: there is no column 'c'; there are: a, b");
  EXPECT_EQ(error("a,b\n1,x\n2,y\n", {.features = {"c"}}),
            "a.csv: line 1: there is no column 'c'; there are: a, b");
  EXPECT_EQ(error("a,b\n1,x\n2\n"), "a.csv: line 3: it has 1 cells, the header 2");
  EXPECT_EQ(error("a,b\n1,\"x\n"), "a.csv: line 2: a quoted cell does not end");
  EXPECT_EQ(error("a,b\n"), "a.csv: line 1: there are no rows behind the header");
  EXPECT_EQ(error("a,b\n1,x\n"), "a.csv: 1 rows are too few for a training and a test part");
  EXPECT_EQ(error("a,b\n1,x\n2,x\n3,x\n4,x\n5,x\n6,x\n"),
            "a.csv: column b: all rows have the label 'x': there is nothing to tell apart");
  EXPECT_EQ(error("a,b\n,x\n,y\n,x\n,y\n,x\n,y\n").substr(0, 12), "a.csv: line ");
  EXPECT_NE(error("a,b\n,x\n,y\n,x\n,y\n,x\n,y\n").find("column a: the cell is empty"), std::string::npos);
  EXPECT_NE(error("a,b\n1,0.5\n2,1.5\n3,0.5\n4,0.5\n5,1.5\n6,1\n").find("is no class"), std::string::npos);
  EXPECT_EQ(error("b\nx\ny\nx\ny\nx\ny\n"), "a.csv: column b: there is no other column to learn it from");
  EXPECT_EQ(error("a,b\n1,x\n2,y\n3,x\n4,y\n5,x\n6,y\n", {.features = {"b"}}),
            "a.csv: column b: it is the label, and cannot be learned from");
}

TEST_F(Csv, ATestFileFitsTheTrainingPart) {
  const std::string training = "a,b\n1,x\n2,y\n";
  EXPECT_NE(error_of<DataError>([&] { open(training, "a,c\n1,x\n"); }).find("its columns are not those of"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>([&] {
              open(training, "a,b\n1,z\n");
            }).find("line 2, column b: no row of the training part has the label 'z'"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>([&] {
              open(training, "a,b\none,x\n");
            }).find("line 2, column a: 'one' is no number"),
            std::string::npos);
}

TEST_F(Csv, NamesAreNoCategories) {
  std::string text = "a,b\n";
  for (int i = 0; i < 3000; ++i) text += fmt::format("name{},{}\n", i, i % 2);
  EXPECT_NE(error(text).find("different texts are too many for categories"), std::string::npos);
}

TEST_F(Csv, IsFoundByItsPrefix) {
  const auto path = put("a.csv", "a,b\n1,x\n2,y\n");
  const auto info = find_dataset("csv:" + path, {.label = "a"});
  EXPECT_EQ(info.name, "csv:" + path);
  EXPECT_TRUE(info.format->can_give({{"features", DType::f32, {4}}, {"label", DType::i64, {}, 3}}));
  EXPECT_FALSE(info.format->can_give({{"image", DType::f32, {1, 28, 28}}, {"label", DType::i64, {}, 3}}));
  EXPECT_NE(error_of<DataError>([] { find_dataset("csv:/no/such.csv"); }).find("/no/such.csv"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::data
