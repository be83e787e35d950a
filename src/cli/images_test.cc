// The program with a folder of images that its user brings.
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "cli/program_fixture.h"
#include "data/jpeg_png_fixture.h"
#include "data/png.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class OwnImages : public Program {
 protected:
  // 200 digits as a pocket calculator shows them, twenty of each: half of them PNG and grey, half JPEG and
  // coloured, in different sizes and places.
  std::string digits() const {
    SplitMix64 random(7);
    for (int i = 0; i < 200; ++i) {
      const int digit = i % 10;
      const unsigned side = 28 + 4 * static_cast<unsigned>(random.below(4));
      const auto grey = draw(digit, side, random);
      const auto folder = root() / "digits" / fmt::format("digit {}", digit);
      fs::create_directories(folder);
      const bool png = i / 10 % 2 == 0;
      std::ofstream(folder / fmt::format("{}.{}", i, png ? "png" : "JPG"), std::ios::binary)
          << (png ? data::encode_png(grey, side, side)
                  : data::fixture::encode_jpeg(as_colours(grey), side, side, 3));
    }
    return (root() / "digits").string();
  }
  std::vector<std::string> train_on(const std::string& folder, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--epochs", "30"});
    return train_into_out(more, ("images:" + folder).c_str());
  }
  // A class of two white squares.
  void put_class(const std::string& folder) const {
    const std::vector<std::uint8_t> white(28 * 28, 255);
    fs::create_directories(root() / folder);
    for (const char* name : {"a.png", "b.png"})
      std::ofstream(root() / folder / name, std::ios::binary) << data::encode_png(white, 28, 28);
  }

 private:
  // Segments in the order: top, upper left, upper right, middle, lower left, lower right, bottom.
  static std::vector<std::uint8_t> draw(int digit, unsigned side, SplitMix64& random) {
    constexpr int kSegments[] = {0b1110111, 0b0010010, 0b1011101, 0b1011011, 0b0111010,
                                 0b1101011, 0b1101111, 0b1010010, 0b1111111, 0b1111011};
    std::vector<std::uint8_t> pixels;
    for (unsigned p = 0; p < side * side; ++p) pixels.push_back(static_cast<std::uint8_t>(random.below(40)));
    const unsigned unit = side / 7;
    const auto moved = static_cast<unsigned>(random.below(unit));
    const auto fill = [&](unsigned top, unsigned left, unsigned rows, unsigned cols) {
      for (unsigned y = top; y < top + rows; ++y) {
        for (unsigned x = left + moved; x < left + moved + cols; ++x) pixels[y * side + x] = 230;
      }
    };
    const auto lit = [&](int segment) { return (kSegments[digit] >> (6 - segment) & 1) != 0; };
    for (const unsigned bar : {0U, 1U, 2U}) {
      if (lit(static_cast<int>(3 * bar))) fill(unit + 2 * unit * bar, 2 * unit, unit, 3 * unit);
    }
    for (const unsigned post : {0U, 1U, 2U, 3U}) {
      const int segment = static_cast<int>(post < 2 ? 1 + post : 2 + post);
      if (lit(segment))
        fill(unit + 2 * unit * (post / 2), post % 2 == 0 ? 2 * unit : 4 * unit, 3 * unit, unit);
    }
    return pixels;
  }
  static std::vector<std::uint8_t> as_colours(const std::vector<std::uint8_t>& grey) {
    std::vector<std::uint8_t> colours;
    for (const std::uint8_t x : grey) {
      colours.insert(colours.end(), {x, x, static_cast<std::uint8_t>(x / 2 + 20)});
    }
    return colours;
  }
};

TEST_F(OwnImages, AFolderIsLearnedByOneCommand) {
  const auto folder = digits();
  const Ended e = run(train_on(folder, {"--model", "mnist-cnn", "--workers", "2"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_GT(s["test_accuracy"], 0.9);
  EXPECT_EQ(s["config"]["classes"], 10);
  EXPECT_EQ(s["replicas_sha256"][0], s["replicas_sha256"][1]);
}

// Pictures are decoded by as many threads as a worker has cores, and then moved, mirrored and cut out.
TEST_F(OwnImages, ReproducibleRunsDecodeAndChangeThemAlikeOnAnyNumberOfCores) {
  const auto folder = digits();
  const auto hash_of = [&](std::vector<std::string> way, const std::function<void()>& before = {}) {
    way.insert(way.begin(), {"train", "--data", "images:" + folder, "--model", "mnist-cnn", "--reproducible",
                             "--global-batch", "16", "--crop", "--flip", "--cutout", "6", "--steps", "14",
                             "--no-evaluate", "--no-checkpoint", "--overwrite", "--out", out().string()});
    const Ended e = run(way, before);
    EXPECT_EQ(e.code, 0) << e.error;
    return e.code == 0 ? summary()["parameters_sha256"].get<std::string>() : e.error;
  };
  const auto on_one_core = [] {
    cpu_set_t cores;
    ::sched_getaffinity(0, sizeof cores, &cores);
    int first = 0;
    while (!CPU_ISSET(first, &cores)) ++first;
    CPU_ZERO(&cores);
    CPU_SET(first, &cores);
    ::sched_setaffinity(0, sizeof cores, &cores);
  };
  const auto expected = hash_of({"--strategy", "local"});
  EXPECT_EQ(hash_of({"--strategy", "local"}, on_one_core), expected);
  EXPECT_EQ(hash_of({"--strategy", "ring", "--workers", "2"}), expected);
  EXPECT_EQ(hash_of({"--strategy", "allreduce", "--workers", "4"}, on_one_core), expected);
}

TEST_F(OwnImages, ARunGoesOnWhereverItsFolderLiesAndRefusesAnother) {
  const auto folder = digits();
  const auto data = "images:" + folder;
  ASSERT_EQ(run(train_into_out({"--steps", "2"}, data.c_str())).code, 0);
  fs::rename(folder, root() / "moved");
  const auto moved = "images:" + (root() / "moved").string();
  Ended e = run({"train", "--resume", out().string(), "--steps", "3", "--data", moved});
  EXPECT_EQ(e.code, 0) << e.error;
  fs::copy_file(root() / "moved/digit 1/1.png", root() / "moved/digit 0/0.png",
                fs::copy_options::overwrite_existing);
  e = run({"train", "--resume", out().string(), "--steps", "4"});
  EXPECT_EQ(e.code, 2) << e.error;
}

TEST_F(OwnImages, IsShownWithItsClassesAndDrawn) {
  const auto name = "images:" + digits();
  const Ended e = run({"data", "show", name, "--test-share", "0.25"});
  ASSERT_EQ(e.code, 0) << e.error;
  for (const char* words : {"image 3x", "label below 10", "150 training samples, 50 test samples",
                            "\n10 classes ", "\ndigit 7 "}) {
    EXPECT_NE(e.out.find(words), std::string::npos) << words << "\n" << e.out;
  }
  const Ended json = run({"data", "show", name, "--json"});
  ASSERT_EQ(json.code, 0) << json.error;
  const auto shown = nlohmann::json::parse(json.out);
  EXPECT_EQ(shown["training"], 160);
  EXPECT_EQ(shown["classes"][3]["name"], "digit 3");
  EXPECT_EQ(shown["classes"][3]["test"], 4);
  EXPECT_EQ(shown["fields"][1]["below"], 10);
}

TEST_F(OwnImages, BadFoldersAreRefusedWithTheFile) {
  fs::create_directories(root() / "empty");
  expect_refused(train_on((root() / "empty").string()), "empty: there are no folders in it");
  expect_refused(train_on((root() / "none").string()), "none: No such file or directory");
  put_class("squares/one");
  expect_refused(train_on((root() / "squares").string()), "all images are of one class, 'one'");
  fs::create_directories(root() / "squares/two");
  expect_refused(train_on((root() / "squares").string()), "squares/two: no file in it ends in");
  put_class("squares/two");
  const auto whole = data::fixture::encode_jpeg(std::vector<std::uint8_t>(64 * 64, 9), 64, 64, 1);
  std::ofstream(root() / "squares/two/half.jpg", std::ios::binary) << whole.substr(0, whole.size() - 9);
  expect_refused(train_on((root() / "squares").string()), "squares/two/half.jpg: row ");
  EXPECT_EQ(run({"data", "show", "images:" + (root() / "squares").string()}).code, 2);
  expect_refused(train_on((root() / "squares").string(), {"--model", "mlp"}), "cannot be given as features");
}

}  // namespace
}  // namespace tutti
