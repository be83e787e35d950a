#include "data/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/npy_fixture.h"
#include "data/own_data.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class Npy : public ::testing::Test {
 protected:
  PartFiles put(const std::string& x, const std::string& y) {
    return sources_of(
        {write(scratch_.path() / "x.npy", x).string(), write(scratch_.path() / "y.npy", y).string()}, {});
  }
  std::string error(const std::string& x, const std::string& y) {
    const auto sources = put(x, y);
    std::string said = error_of<DataError>([&] { NpyFormat(0.5).native_fields(sources); });
    return said.substr(std::min(said.size(), scratch_.path().string().size() + 1));
  }
  ScratchFolder scratch_;
};

const std::vector<std::int64_t> kLabels = {0, 1, 2, 0, 1, 2, 0, 1};
std::string labels() {
  return npy<std::int64_t>("<i8", "8,", kLabels);
}

TEST_F(Npy, NumbersOfEveryTypeArriveInTheirOrder) {
  std::vector<double> values(16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 4;
  const auto check = [&](const std::string& x, double factor) {
    const auto sources = put(x, labels());
    const NpyFormat format(0.4);
    const auto fields = format.native_fields(sources);
    ASSERT_EQ(fields[0].name, "features");
    EXPECT_EQ(fields[0].shape, std::vector<std::int64_t>{2});
    EXPECT_EQ(fields[1].below, 3);
    const BothParts parts(format, sources, fields);
    std::size_t seen[2] = {0, 0};
    for (std::size_t i = 0; i < 8; ++i) {
      const auto part = static_cast<std::size_t>(part_of(i, 0.4));
      const auto& samples = parts[static_cast<Part>(part)];
      const auto at = static_cast<std::uint32_t>(seen[part]++);
      EXPECT_EQ(decoded<float>(samples, 0, {at}),
                (std::vector<float>{static_cast<float>(values[2 * i] * factor),
                                    static_cast<float>(values[2 * i + 1] * factor)}));
      EXPECT_EQ(decoded<std::int64_t>(samples, 1, {at}), std::vector<std::int64_t>{kLabels[i]});
    }
    EXPECT_GT(seen[0], 0U);
    EXPECT_GT(seen[1], 0U);
  };
  const auto as = [&]<typename T>(const std::string& descr, T) {
    std::vector<T> typed;
    for (const double v : values)
      typed.push_back(static_cast<T>(sizeof(T) < 4 || std::is_integral_v<T> ? v * 4 : v));
    return npy<T>(descr, "8, 2", typed);
  };
  check(as("<f4", float{}), 1);
  check(as("<f8", double{}), 1);
  check(as("<i8", std::int64_t{}), 4);
  check(as("<i4", std::int32_t{}), 4);
  check(as("<i2", std::int16_t{}), 4);
  check(as("|i1", std::int8_t{}), 4);
  check(as("|u1", std::uint8_t{}), 4);
}

TEST_F(Npy, BytesOfImagesBecomeZeroToOne) {
  const auto sources = put(
      npy<std::uint8_t>("|u1", "8, 1, 2", {0, 255, 51, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255}), labels());
  const NpyFormat format(0.4);
  const auto fields = format.native_fields(sources);
  EXPECT_EQ(fields[0].name, "image");
  EXPECT_EQ(fields[0].shape, (std::vector<std::int64_t>{1, 1, 2}));
  const BothParts parts(format, sources, fields);
  const auto first = parts[part_of(0, 0.4)].size() > 0 ? decoded<float>(parts[part_of(0, 0.4)], 0, {0})
                                                       : std::vector<float>{};
  EXPECT_EQ(first, (std::vector<float>{0, 1}));
}

TEST_F(Npy, WhatIsWrongIsNamedWithItsPlace) {
  const auto x = npy<float>("<f4", "8, 1", std::vector<float>(8));
  EXPECT_EQ(error("numbers", labels()), "x.npy: byte 0: this is no .npy file");
  EXPECT_NE(error(x.substr(0, 40), labels()).find("byte 8: the file ends in its header"), std::string::npos);
  EXPECT_NE(error(x.substr(0, x.size() - 1), labels()).find("the file ends in its numbers"),
            std::string::npos);
  EXPECT_NE(error(x + "1234", labels()).find("36 bytes of numbers follow; the header tells of 32"),
            std::string::npos);
  EXPECT_NE(error(npy<float>(">f4", "8, 1", std::vector<float>(8)), labels()).find("type '>f4'"),
            std::string::npos);
  EXPECT_NE(error(npy<float>("<f4", "8, 1", std::vector<float>(8), "True"), labels()).find("Fortran"),
            std::string::npos);
  EXPECT_NE(error(npy<float>("<f4", "8,", std::vector<float>(8)), labels()).find("1 dimensions"),
            std::string::npos);
  EXPECT_NE(error(npy<float>("<f4", "4, 2", std::vector<float>(8)), labels()).find("each of the 4 samples"),
            std::string::npos);
  EXPECT_NE(error(x, npy<float>("<f4", "8,", {0, 1, 0.5F, 0, 0, 0, 0, 0})).find("number 2 is 0.5"),
            std::string::npos);
  EXPECT_NE(error(x, npy<float>("<f4", "8,", std::vector<float>(8))).find("nothing to tell apart"),
            std::string::npos);
  // A product of dimensions that overflows is no size.
  EXPECT_NE(
      error(npy<float>("<f4", "4294967296, 4294967296", {}), labels()).find("the file ends in its numbers"),
      std::string::npos);
}

TEST_F(Npy, NumbersThatAreNoneAreRefused) {
  auto values = std::vector<float>(8);
  values[3] = NAN;
  const auto sources = put(npy<float>("<f4", "8, 1", values), labels());
  const NpyFormat format(0.4);
  const auto fields = format.native_fields(sources);
  EXPECT_NE(error_of<DataError>([&] { format.prepare(sources, fields, {}); }).find("sample 3 holds nan"),
            std::string::npos);
}

TEST_F(Npy, WantsTwoFiles) {
  EXPECT_NE(error_of<ConfigError>([] { find_dataset("npy:x.npy"); }).find("npy:X.npy,Y.npy"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::data
