#include "data/image_folder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class Folder : public ::testing::Test {
 protected:
  void put(const std::string& path) { write(root() / path, "x"); }
  std::filesystem::path root() const { return scratch_.path() / "pets"; }
  ImageFolder list(double share = 0.25) const { return list_images(root(), share); }
  std::string error() const {
    auto said = error_of<DataError>([&] { list(); });
    const auto at = said.find(root().string());
    return at == std::string::npos ? said : said.replace(at, root().string().size(), "ROOT");
  }
  static std::vector<std::string> paths(const std::vector<ImageFile>& images) {
    std::vector<std::string> all;
    for (const auto& image : images) all.push_back(fmt::format("{} {}", image.path, image.label));
    return all;
  }
  std::vector<std::string> all_paths() const {
    const auto folder = list();
    auto all = paths(folder[Part::training]);
    for (const auto& path : paths(folder[Part::test])) all.push_back(path);
    std::ranges::sort(all);
    return all;
  }
  ScratchFolder scratch_;
};

using Paths = std::vector<std::string>;

TEST_F(Folder, AFolderIsAClassWhateverElseLiesThere) {
  for (const char* path : {"dog/b.JPG", "dog/a.jpeg", "cat/x.png", "cat/deep/er/y.Png", "cat/notes.txt",
                           "cat/.hidden.png", ".git/a.png", "readme.md", "stray.png"}) {
    put(path);
  }
  EXPECT_EQ(list().classes, (Paths{"cat", "dog"}));
  EXPECT_EQ(all_paths(), (Paths{"cat/deep/er/y.Png 0", "cat/x.png 0", "dog/a.jpeg 1", "dog/b.JPG 1"}));
}

TEST_F(Folder, PartsMayHaveFoldersOfTheirOwn) {
  for (const char* path :
       {"train/dog/1.png", "train/cat/2.png", "train/cow/3.png", "val/dog/4.png", "other/dog/5.png"}) {
    put(path);
  }
  EXPECT_EQ(list().classes, (Paths{"cat", "cow", "dog"}));
  EXPECT_EQ(paths(list()[Part::training]),
            (Paths{"train/cat/2.png 0", "train/cow/3.png 1", "train/dog/1.png 2"}));
  EXPECT_EQ(paths(list()[Part::test]), (Paths{"val/dog/4.png 2"}));
  put("test/cat/6.png");
  EXPECT_EQ(paths(list()[Part::test]), (Paths{"test/cat/6.png 0"}));
}

TEST_F(Folder, WithoutATestFolderTheTrainingFolderIsSplit) {
  for (const char* path : {"train/dog/1.png", "train/dog/2.png", "train/cat/3.png", "train/cat/4.png"}) {
    put(path);
  }
  EXPECT_EQ(list()[Part::training].size(), 2u);
  EXPECT_EQ(list()[Part::test].size(), 2u);
}

TEST_F(Folder, TrainMayBeAClass) {
  for (const char* path : {"train/1.png", "train/2.png", "bus/3.png", "bus/4.png"}) put(path);
  EXPECT_EQ(list().classes, (Paths{"bus", "train"}));
}

TEST_F(Folder, EveryClassIsSplitByItsShareTheSameWayEveryTime) {
  for (int i = 0; i < 40; ++i) put(fmt::format("cat/{}.png", i));
  for (int i = 0; i < 3; ++i) put(fmt::format("dog/{}.png", i));
  put("eel/only.png");
  const auto tests = [](const ImageFolder& folder, std::size_t label) {
    return std::ranges::count(folder[Part::test], label, &ImageFile::label);
  };
  const auto folder = list();
  EXPECT_EQ(tests(folder, 0), 10);
  EXPECT_EQ(tests(folder, 1), 1);
  EXPECT_EQ(tests(folder, 2), 0);
  EXPECT_EQ(tests(list(0.999), 1), 2);
  EXPECT_EQ(paths(list()[Part::test]), paths(folder[Part::test]));
  // Not the first ones: files are often in some order.
  EXPECT_NE(folder[Part::test][0].path + folder[Part::test][1].path, "cat/0.pngcat/1.png");
}

TEST_F(Folder, WhatIsMissingIsNamed) {
  EXPECT_EQ(error(), "cannot read ROOT: No such file or directory");
  put("a.png");
  EXPECT_TRUE(error().starts_with("ROOT: there are no folders in it; it wants a folder for each class"))
      << error();
  put("cat/a.png");
  EXPECT_TRUE(error().starts_with("ROOT: all images are of one class, 'cat'")) << error();
  put("dog/a.txt");
  EXPECT_TRUE(error().starts_with("ROOT/dog: no file in it ends in .jpg, .jpeg or .png")) << error();
  put("dog/a.png");
  EXPECT_EQ(error(), "ROOT: one image a class is too few for a training and a test part");
}

TEST_F(Folder, AClassThatIsTestedAndNotTrainedIsNamed) {
  for (const char* path : {"train/dog/1.png", "train/cat/2.png", "test/cow/3.png"}) put(path);
  EXPECT_EQ(error(), "ROOT/test/cow: there is no class of this name in " + (root() / "train").string());
}

}  // namespace
}  // namespace tutti::data
