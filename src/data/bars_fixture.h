// A small data set for tests, in the files and shapes of MNIST, that a network learns within seconds: the
// class is the height of a bright bar, with noise around.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "data/idx_fixture.h"

namespace tutti::data::fixture {

// One part of a set, from as many images and labels as bytes say.
inline void write_part(const std::filesystem::path& folder, const std::string& part,
                       const std::string& pixels, const std::string& labels) {
  const auto count = static_cast<std::uint32_t>(labels.size());
  std::string header = big_endian(0x803);
  for (const std::uint32_t n : {count, 28U, 28U}) header += big_endian(n);
  write_file_atomically(folder / (part + "-images-idx3-ubyte"), header + pixels);
  write_file_atomically(folder / (part + "-labels-idx1-ubyte"),
                        big_endian(0x801) + big_endian(count) + labels);
}

inline void write_bars_part(const std::filesystem::path& folder, const std::string& part,
                            std::uint32_t count) {
  SplitMix64 random(count);
  std::string pixels;
  std::string labels;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t label = random.below(10);
    labels += static_cast<char>(label);
    for (std::size_t p = 0; p < 28UL * 28; ++p) {
      const bool bar = p / 28 / 2 == label + 2;
      pixels += static_cast<char>(random.below(60) + (bar ? 190 : 0));
    }
  }
  write_part(folder, part, pixels, labels);
}

// The four files of a set under root/name.
inline void write_bars(const std::filesystem::path& root, const std::string& name, std::uint32_t training,
                       std::uint32_t test) {
  std::filesystem::create_directories(root / name);
  write_bars_part(root / name, "train", training);
  write_bars_part(root / name, "t10k", test);
}

}  // namespace tutti::data::fixture
