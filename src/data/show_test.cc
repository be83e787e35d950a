#include "data/show.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/bars_fixture.h"
#include "data/own_data.h"

namespace tutti::data {
namespace {

using namespace fixture;

class ShowSet : public ::testing::Test {
 protected:
  Show show(const std::string& name) const {
    const auto info = find_dataset(name);
    return {info, locate(info, std::vector{scratch_.path()}), {}};
  }
  std::string put(const std::string& name, const std::string& text) {
    return write(scratch_.path() / name, text).string();
  }
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all(1);
    for (const char c : text) c == '\n' ? void(all.emplace_back()) : void(all.back() += c);
    return all;
  }
  ScratchFolder scratch_;
};

TEST_F(ShowSet, CountsClassesOfBothPartsAndSumsUpNumbers) {
  // Both images are black but for one pixel of 255.
  std::string pixels(2 * 784, '\0');
  pixels[3] = pixels[900] = '\xff';
  std::filesystem::create_directories(scratch_.path() / "mnist");
  write_part(scratch_.path() / "mnist", "train", pixels, {7, 2});
  write_part(scratch_.path() / "mnist", "t10k", pixels.substr(0, 784), {2});
  const Show mnist = show("mnist");
  const Overview& o = mnist.overview();
  EXPECT_EQ(text_of(o.fields), "image 1x28x28, label below 10");
  EXPECT_EQ(o.samples, (std::array<std::size_t, 2>{2, 1}));
  ASSERT_EQ(o.by_class.size(), 10u);
  EXPECT_EQ(o.by_class[2], (std::array<std::size_t, 2>{1, 1}));
  EXPECT_EQ(o.by_class[7], (std::array<std::size_t, 2>{1, 0}));
  ASSERT_EQ(o.numbers.size(), 1u);
  EXPECT_EQ(o.numbers[0].field, "image");
  EXPECT_NEAR(o.numbers[0].mean, 1 / 784.0, 1e-9);
  EXPECT_NEAR(o.numbers[0].deviation, std::sqrt(1 / 784.0 - 1 / 784.0 / 784.0), 1e-7);
  EXPECT_EQ(o.numbers[0].least, 0);
  EXPECT_EQ(o.numbers[0].most, 1);
}

TEST_F(ShowSet, DrawsAnImageOfEachOfAFewClasses) {
  write_bars(scratch_.path(), "mnist", 300, 20);
  const Show mnist = show("mnist");
  const auto text = lines(mnist.text({.samples = 4}));
  EXPECT_EQ(text[0], "mnist: MNIST handwritten digits");
  EXPECT_EQ(text[1], "image 1x28x28, label below 10");
  EXPECT_EQ(text[2], "300 training samples, 20 test samples");
  std::size_t bars = 0;
  for (const auto& line : text) {
    EXPECT_LE(line.size(), 80u) << line;
    const auto bright = std::ranges::count_if(
        line, [](char c) { return std::string_view("*#%@").find(c) != std::string_view::npos; });
    bars += bright > 10 ? 1 : 0;
  }
  EXPECT_GE(bars, 2u);  // two lines of drawn samples, each with a bar
  const auto blocks = mnist.text({.samples = 1, .blocks = true});
  EXPECT_NE(blocks.find("█"), std::string::npos) << blocks;
  EXPECT_EQ(blocks.find('@'), std::string::npos);
}

TEST_F(ShowSet, WritesOutRowsWithTheNamesOfTheirClasses) {
  std::string csv = "a,b,kind\n";
  for (int i = 0; i < 30; ++i)
    csv += fmt::format("{},{},{}\n", i, i % 7,
                       i % 2 == 0 ? "even"
                                  : "o\x1b"
                                    "dd");
  const Show table = show("csv:" + put("t.csv", csv));
  const auto text = table.text({.samples = 2});
  EXPECT_NE(text.find("features 2, label below 2"), std::string::npos) << text;
  EXPECT_NE(text.find("\n2 classes "), std::string::npos) << text;
  EXPECT_NE(text.find("\nfeatures -1."), std::string::npos) << text;
  EXPECT_NE(text.find("; label even\n"), std::string::npos) << text;
  EXPECT_NE(text.find("; label o?dd\n"), std::string::npos) << text;  // terminals are not commanded
  EXPECT_EQ(table.text({.samples = 0}).find("; label"), std::string::npos);
}

TEST_F(ShowSet, OfManyClassesTheLargestAndTheSmallest) {
  std::string csv = "a,kind\n";
  for (int kind = 0; kind < 50; ++kind) {
    for (int i = 0; i < 10 + kind; ++i) csv += fmt::format("{},{}\n", i, kind);
  }
  const auto text = show("csv:" + put("t.csv", csv)).text({.samples = 0});
  EXPECT_NE(text.find("\n50 classes "), std::string::npos) << text;
  EXPECT_NE(text.find("\n... 30 classes between\n"), std::string::npos) << text;
  EXPECT_EQ(lines(text).size(), 4u + 1 + 1 + 10 + 1 + 10 + 1);
}

TEST_F(ShowSet, WritesOutTheWordsOfAText) {
  std::string words;
  for (int i = 0; i < 200; ++i) words += "the quick brown fox\n";
  const auto text = show("text:" + put("t.txt", words)).text({.samples = 1});
  EXPECT_NE(text.find("tokens the quick brown fox <eos> the quick"), std::string::npos) << text;
  for (const auto& line : lines(text)) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace tutti::data
