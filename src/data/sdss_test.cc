#include "data/sdss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

const std::vector<Field> kFive = {{"features", DType::f32, {5}}, {"label", DType::i64, {}, 3}};
const std::vector<Field> kSix = {{"features", DType::f32, {6}}, {"label", DType::i64, {}, 3}};

// Feature f (0 to 4: magnitudes, 5: redshift) and class of a row.
double feature(std::size_t row, std::size_t f) {
  return 10 + static_cast<double>((row * 7 + f * 3) % 13) + static_cast<double>(f) / 8;
}
std::size_t label(std::size_t row) {
  return row * 5 % 3;
}

// Columns in another order than the features', with one that nobody needs.
std::string table(std::size_t rows) {
  const char* classes[] = {"GALAXY", "QSO", "STAR"};
  std::string csv = "class,z,objid,u,g,redshift,r,i\n";
  for (std::size_t i = 0; i < rows; ++i) {
    csv += fmt::format("{},{},x{},{},{},{},{},{}\n", classes[label(i)], feature(i, 4), i, feature(i, 0),
                       feature(i, 1), feature(i, 5), feature(i, 2), feature(i, 3));
  }
  return csv;
}

class Sdss : public ::testing::Test {
 protected:
  BothParts open(const std::string& csv, const std::vector<Field>& wanted = kFive) {
    return {SdssFormat(), sources_of({write(file_, csv).string()}, {}), wanted};
  }
  // Without the path and ": ".
  std::string error(const std::string& csv, const std::vector<Field>& wanted = kFive) {
    const std::string text = error_of<DataError>([&] { open(csv, wanted); });
    const std::string path = file_.string() + ": ";
    EXPECT_TRUE(text.starts_with(path)) << text;
    return text.starts_with(path) ? text.substr(path.size()) : text;
  }

  ScratchFolder scratch_;
  std::filesystem::path file_ = scratch_.path() / "stars.csv";
};

TEST_F(Sdss, FeaturesAreStandardisedByTheTrainingPartAlone) {
  constexpr std::size_t kRows = 200;
  const BothParts parts = open(table(kRows), kSix);
  std::vector<std::size_t> rows[2];
  for (std::size_t i = 0; i < kRows; ++i) rows[static_cast<std::size_t>(sdss_part(i))].push_back(i);
  for (const Part part : kParts) {
    const auto& mine = rows[static_cast<std::size_t>(part)];
    ASSERT_EQ(parts[part].size(), mine.size());
    const auto features = decoded<float>(parts[part], 0);
    const auto labels = decoded<std::int64_t>(parts[part], 1);
    for (std::size_t f = 0; f < 6; ++f) {
      double sum = 0;
      double squares = 0;
      for (const std::size_t i : rows[0]) {
        sum += feature(i, f);
        squares += feature(i, f) * feature(i, f);
      }
      const double mean = sum / static_cast<double>(rows[0].size());
      const double deviation = std::sqrt(squares / static_cast<double>(rows[0].size()) - mean * mean);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_NEAR(features[i * 6 + f], (feature(mine[i], f) - mean) / deviation, 1e-5);
      }
    }
    for (std::size_t i = 0; i < mine.size(); ++i)
      EXPECT_EQ(labels[i], static_cast<std::int64_t>(label(mine[i])));
  }
}

TEST_F(Sdss, AFifthOfTheRowsIsForTestsAndNewRowsDoNotMoveOldOnes) {
  std::size_t test = 0;
  for (std::size_t i = 0; i < 10'000; ++i) test += sdss_part(i) == Part::test ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(test), 2000, 120);
  const auto few = decoded<std::int64_t>(open(table(100))[Part::test], 1);
  auto many = decoded<std::int64_t>(open(table(300))[Part::test], 1);
  many.resize(few.size());
  EXPECT_EQ(many, few);
}

TEST_F(Sdss, PhotometryAloneNeedsNoRedshift) {
  const std::string csv = "u,g,r,i,z,class\r\n" + [] {
    std::string rows;
    for (int i = 0; i < 50; ++i) rows += fmt::format("1{},2,3,4,5,STAR\r\n", i);
    return rows;
  }();
  const BothParts parts = open(csv + "\r\n\r\n");
  EXPECT_EQ(parts[Part::training].size() + parts[Part::test].size(), 50u);
  EXPECT_EQ(decoded<float>(parts[Part::training], 0, {0})[1], 0) << "a feature that is always the same is 0";
  EXPECT_EQ(error(csv, kSix), "line 1: there is no column redshift");
}

TEST_F(Sdss, NamesWhatIsWrongAndWhere) {
  const std::string good = "u,g,r,i,z,class\n1,2,3,4,5,STAR\n";
  EXPECT_EQ(error(""), "line 1: the file is empty");
  EXPECT_EQ(error("u,g,r,z,class\n"), "line 1: there is no column i");
  EXPECT_EQ(error("u,g,r,i,z\n"), "line 1: there is no column class");
  EXPECT_EQ(error(good + "1,2,three,4,5,STAR\n"), "line 3, column r: 'three', expected a number");
  EXPECT_EQ(error(good + "1,2,,4,5,STAR\n"), "line 3, column r: '', expected a number");
  EXPECT_EQ(error(good + "1,2,nan,4,5,STAR\n"), "line 3, column r: 'nan', expected a number");
  EXPECT_EQ(error(good + "1,2,3 ,4,5,STAR\n"), "line 3, column r: '3 ', expected a number");
  EXPECT_EQ(error(good + "1,2,3,4,5,MOON\n"), "line 3, column class: 'MOON', expected GALAXY, QSO or STAR");
  EXPECT_EQ(error(good + "1,2,3,4\n"), "line 3, column 5: the line has 4 cells, expected 6");
  EXPECT_EQ(error(good + "\n1,2,3,4,5,STAR\n"), "line 3, column 2: the line has 1 cells, expected 6");
  EXPECT_EQ(error(good + "1,2,3,4,5,STAR,7\n"), "line 3, column 7: the line has 7 cells, expected 6");
  EXPECT_EQ(error(good), "line 2: the file ends after 1 rows, too few for a training and a test part");
}

TEST_F(Sdss, GivesFiveOrSixFeatures) {
  const SdssFormat format;
  EXPECT_EQ(format.native_fields({}), kFive);
  EXPECT_TRUE(format.can_give(kFive));
  EXPECT_TRUE(format.can_give(kSix));
  EXPECT_FALSE(format.can_give({{"features", DType::f32, {7}}, {"label", DType::i64, {}, 3}}));
  EXPECT_FALSE(format.can_give({{"features", DType::f32, {5}}, {"label", DType::i64, {}, 4}}));
}

}  // namespace
}  // namespace tutti::data
