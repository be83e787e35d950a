#include "data/catalogue.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/own_data.h"

namespace tutti::data {
namespace {

using fixture::error_of;

class Catalogue : public ::testing::Test {
 protected:
  void put(const std::string& root, const std::string& file) {
    fixture::write(root_of(root) / "mnist" / file, "x");
  }
  std::filesystem::path root_of(const std::string& root) const { return scratch_.path() / root; }
  LocatedDataset find() const {
    const std::vector roots = {root_of("a"), root_of("b")};
    return locate(mnist_, roots);
  }

  ScratchFolder scratch_;
  const DatasetInfo mnist_ = find_dataset("mnist");
};

TEST_F(Catalogue, KnowsItsSets) {
  EXPECT_EQ(text_of(find_dataset("fashion-mnist").format->native_fields({})),
            "image 1x28x28, label below 10");
  for (const DatasetInfo& info : datasets()) {
    EXPECT_EQ(find_dataset(info.name).name, info.name);
    for (const DatasetFile& file : info.files) EXPECT_EQ(file.sha256.size(), 64u);
  }
}

TEST_F(Catalogue, AnUnknownNameListsTheKnown) {
  const std::string said = error_of<ConfigError>([] { find_dataset("mnits"); });
  EXPECT_TRUE(said.starts_with("unknown data set 'mnits', known are: mnist, fashion-mnist, ")) << said;
  for (const DatasetInfo& info : datasets()) EXPECT_NE(said.find(info.name), std::string::npos) << info.name;
  for (const OwnDataKind& kind : own_data_kinds()) {
    EXPECT_NE(said.find(kind.spelling), std::string::npos) << kind.spelling;
  }
}

TEST_F(Catalogue, TakesTheFirstCompleteRootPlainOrGzipped) {
  put("a", "train-images-idx3-ubyte");
  put("b", "train-images-idx3-ubyte");
  put("b", "train-labels-idx1-ubyte.gz");
  put("b", "t10k-images-idx3-ubyte.gz");
  put("b", "t10k-labels-idx1-ubyte");
  const LocatedDataset located = find();
  EXPECT_EQ(located.paths[0], root_of("b") / "mnist" / "train-images-idx3-ubyte");
  EXPECT_EQ(located.paths[1], root_of("b") / "mnist" / "train-labels-idx1-ubyte.gz");
}

TEST_F(Catalogue, AMissingSetSaysWhereWasLooked) {
  EXPECT_EQ(
      error_of<DataError>([&] { find(); }),
      fmt::format(
          "data set mnist not found, looked at: {}/mnist, {}/mnist; get it with: tutti data fetch mnist",
          root_of("a").string(), root_of("b").string()));
}

TEST_F(Catalogue, APartialSetNamesTheMissingFile) {
  put("b", "train-images-idx3-ubyte");
  EXPECT_EQ(
      error_of<DataError>([&] { find(); }),
      fmt::format(
          "data set mnist is incomplete: {}/mnist has no train-labels-idx1-ubyte[.gz]; complete it with: "
          "tutti data fetch mnist",
          root_of("b").string()));
}

}  // namespace
}  // namespace tutti::data
