#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace tutti::checkpoint {
namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Safetensors, RoundTripKeepsEveryTypeShapeAndByte) {
  const ScratchFolder folder;
  const std::array<double, 6> numbers{1, -2.5, 3e300, 4, -0.0, 6};
  const auto bytes = std::as_bytes(std::span(numbers));
  const std::vector<TensorView> tensors{{"z.f64", DType::f64, {2, 3}, bytes},
                                        {"a.f32", DType::f32, {1}, bytes.first(4)},
                                        {"scalar", DType::i64, {}, bytes.first(8)},
                                        {"empty", DType::i32, {4, 0, 2}, {}},
                                        {"odd.f16", DType::f16, {3}, bytes.first(6)},
                                        {"odd.bf16", DType::bf16, {1, 1}, bytes.first(2)},
                                        {"name \"with\" \n\xc3\xa9", DType::i32, {2}, bytes.subspan(3, 8)}};
  write_safetensors(folder.path() / "x.safetensors", tensors, {{"made by", "a test"}});
  const SafetensorsFile file(folder.path() / "x.safetensors");
  const auto expected = in_name_order(tensors);
  ASSERT_EQ(file.tensors().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& got = file.tensors()[i];
    EXPECT_EQ(got.name, expected[i].name);
    EXPECT_EQ(got.dtype, expected[i].dtype);
    EXPECT_EQ(got.shape, expected[i].shape);
    EXPECT_TRUE(std::ranges::equal(got.bytes, expected[i].bytes));
  }
  EXPECT_EQ(file.metadata(), (Metadata{{"made by", "a test"}}));
  EXPECT_EQ(file.at("scalar").dtype, DType::i64);
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_THROW(file.at("nothing"), DataError);
}

TEST(Safetensors, DataBeginsAtAMultipleOfEight) {
  for (const auto* name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"}) {
    const std::uint64_t number = 0x0123456789abcdef;
    const auto file =
        to_safetensors(std::array{TensorView{name, DType::i64, {1}, std::as_bytes(std::span(&number, 1))}});
    EXPECT_EQ(file.size() % 8, 0);
    EXPECT_EQ(std::memcmp(file.data() + file.size() - 8, &number, 8), 0);
  }
}

// As the format's own test suite writes it.
TEST(Safetensors, ReadsAFileOfTheReferenceImplementation) {
  const std::string file = std::string("<\0\0\0\0\0\0\0", 8) +
                           R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})" +
                           std::string(16, '\0');
  const auto content = parse_safetensors(as_bytes(file), "it");
  ASSERT_EQ(content.tensors.size(), 1);
  EXPECT_EQ(content.tensors[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(content.tensors[0].bytes.size(), 16);
}

TEST(Safetensors, NoTensorsIsAFileToo) {
  EXPECT_TRUE(parse_safetensors(to_safetensors({}), "it").tensors.empty());
}

TEST(Safetensors, WriterRefusesNamesAHeaderCannotHold) {
  for (const auto* name : {"", "__metadata__", "not utf-8 \xff"}) {
    EXPECT_THROW(to_safetensors(std::array{TensorView{name, DType::f32, {0}, {}}}), RunError) << name;
  }
  const TensorView twice{"twice", DType::f32, {0}, {}};
  EXPECT_THROW(to_safetensors(std::array{twice, twice}), RunError);
}

TEST(Safetensors, WriterRefusesBytesThatDoNotFitTheirShape) {
  const std::array<float, 3> numbers{1, 2, 3};
  const auto bytes = std::as_bytes(std::span(numbers));
  EXPECT_NO_THROW(to_safetensors(std::array{TensorView{"a", DType::f32, {3}, bytes}}));
  EXPECT_THROW(to_safetensors(std::array{TensorView{"a", DType::f32, {4}, bytes}}), std::logic_error);
  EXPECT_THROW(to_safetensors(std::array{TensorView{"a", DType::f64, {3}, bytes}}), std::logic_error);
}

TEST(ParametersDigest, IsOverTheDocumentedLayoutInNameOrder) {
  const std::array<float, 2> ab{1, 2};
  const auto bytes = std::as_bytes(std::span(ab));
  const TensorView a{"a", DType::f32, {1, 1}, bytes.first(4)};
  const TensorView b{"bb", DType::f32, {}, bytes.last(4)};
  std::string layout;
  const auto u64 = [&layout](std::uint64_t n) { layout.append(reinterpret_cast<const char*>(&n), 8); };
  u64(1), layout += "afloat32", u64(2), u64(1), u64(1),
      layout.append(reinterpret_cast<const char*>(&ab[0]), 4);
  u64(2), layout += "bbfloat32", u64(0), layout.append(reinterpret_cast<const char*>(&ab[1]), 4);
  EXPECT_EQ(parameters_digest(std::array{a, b}), sha256(as_bytes(layout)));
  EXPECT_EQ(parameters_digest(std::array{b, a}), sha256(as_bytes(layout)));
}

}  // namespace
}  // namespace tutti::checkpoint
