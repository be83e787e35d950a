// Files that lie. After the attack tests of the format's own implementation.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace tutti::checkpoint {
namespace {

std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data_bytes, 'x');
}

// The reader's one line; a test failure if it accepts the file.
std::string refusal(const std::string& file) {
  try {
    parse_safetensors(std::as_bytes(std::span(file)), "bad.safetensors");
  } catch (const DataError& e) {
    const std::string line = e.what();
    EXPECT_TRUE(line.starts_with("bad.safetensors: ")) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
  ADD_FAILURE() << "accepted " << file;
  return {};
}

void expect_refused(const std::string& header, std::size_t data_bytes, const std::string& reason) {
  const auto line = refusal(file_with(header, data_bytes));
  EXPECT_NE(line.find(reason), std::string::npos) << line;
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

TEST(SafetensorsAttack, LengthsThatReachBeyondTheFile) {
  EXPECT_NE(refusal("").find("byte 0"), std::string::npos);
  EXPECT_NE(refusal("1234567").find("byte 7"), std::string::npos);
  EXPECT_NE(refusal(std::string(8, '\xff')).find("more than 100000000"), std::string::npos);
  EXPECT_NE(refusal(std::string("<\0\0\0\0\0\0\0", 8)).find("ends within its header"), std::string::npos);
  EXPECT_NE(refusal(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)).find("more than"), std::string::npos);
}

TEST(SafetensorsAttack, HeadersThatAreNoObject) {
  expect_refused("", 0, "does not begin with {");
  expect_refused("[]", 0, "does not begin with {");
  expect_refused(" {}", 0, "does not begin with {");
  expect_refused("{} x", 0, "not JSON at byte 11");
  expect_refused("{\"a\":", 0, "not JSON");
  expect_refused("{\"\xff\":1}", 0, "not JSON");
  expect_refused("{\"a\":1e999}", 0, "out of range");
}

TEST(SafetensorsAttack, KeysGivenTwice) {
  expect_refused("{" + entry("a", "[1]", "[0,4]") + "," + entry("a", "[1]", "[4,8]") + "}", 8,
                 "appears twice");
  expect_refused(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
                 "appears twice");
}

TEST(SafetensorsAttack, NestingThatWouldExhaustTheStack) {
  std::string deep = "{\"a\":";
  deep.append(1'000'000, '[');
  expect_refused(deep, 0, "nested deeper");
  // 64 levels within the header are read, and found to be no entry; the next is not.
  const auto nested = [](int lists) {
    return "{\"a\":" + std::string(static_cast<std::size_t>(lists), '[') +
           std::string(static_cast<std::size_t>(lists), ']') + "}";
  };
  expect_refused(nested(64), 0, "does not consist of");
  expect_refused(nested(65), 0, "nested deeper than 64");
}

TEST(SafetensorsAttack, OffsetsThatOverlapLeaveHolesOrRunBackwards) {
  const auto pair = [](const std::string& a, const std::string& b) {
    return "{" + entry("a", "[1]", a) + "," + entry("b", "[1]", b) + "}";
  };
  expect_refused(pair("[0,4]", "[0,4]"), 4, "overlaps");
  expect_refused(pair("[0,4]", "[2,6]"), 6, "overlaps");
  expect_refused(pair("[0,4]", "[5,9]"), 9, "hole");
  expect_refused(pair("[4,8]", "[8,12]"), 12, "hole");
  expect_refused(pair("[0,4]", "[8,4]"), 8, "not within");
  expect_refused(pair("[0,4]", "[4,8]"), 7, "not within");
  const auto two = pair("[0,4]", "[4,8]");
  expect_refused(two, 9, "byte " + std::to_string(8 + two.size() + 8) + ": 1 bytes that belong to no tensor");
  expect_refused("{}", 1, "belong to no tensor");
  expect_refused("{" + entry("a", "[1]", "[18446744073709551612,0]") + "}", 4, "not within");
}

TEST(SafetensorsAttack, ShapesThatDoNotFitTheirBytes) {
  const auto one = [](const std::string& shape) { return "{" + entry("a", shape, "[0,16]") + "}"; };
  expect_refused(one("[2,3]"), 16, "does not take 16 bytes");
  expect_refused(one("[]"), 16, "does not take 16 bytes");
  expect_refused(one("[9223372036854775807,9223372036854775807]"), 16, "does not take");
  expect_refused(one("[4611686018427387905,4]"), 16, "does not take");  // 16 bytes modulo 2^64 and more
  expect_refused(one("[18446744073709551614,2]"), 16, "a dimension is no whole number");
  expect_refused(one("[-4,-1]"), 16, "a dimension is no whole number");
  expect_refused(one("[4.0]"), 16, "a dimension is no whole number");
  expect_refused(one("[\"4\"]"), 16, "a dimension is no whole number");
  expect_refused(one("4"), 16, "shape is no list");
}

TEST(SafetensorsAttack, EntriesOfAnotherKind) {
  expect_refused(R"({"a":3})", 0, "does not consist of");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0]}})", 0, "does not consist of");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0],"offsets":[0,0]}})", 0, "does not consist of");
  expect_refused("{" + entry("a", "[0]", "[0,0]", "Q7") + "}", 0, "dtype is none of");
  expect_refused(R"({"a":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})", 0, "dtype is none of");
  expect_refused("{" + entry("a", "[0]", "[0]") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("a", "[0]", "[0,-1]") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("a", "[0]", "[-1,0]") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("a", "[0]", "[\"0\",0]") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("a", "[0]", "[0,0,0]") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("a", "[0]", "{\"0\":0,\"1\":0}") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("a", "[0]", "7") + "}", 0, "no two whole numbers");
  expect_refused("{" + entry("", "[0]", "[0,0]") + "}", 0, "has no name");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "is no text");
  expect_refused(R"({"__metadata__":"a"})", 0, "is no object");
}

TEST(SafetensorsAttack, NamesCannotBreakTheLineOfTheError) {
  expect_refused("{" + entry("x\\n\\u001b[2J", "[1]", "[0,0]") + "}", 0, R"("x\n\u001b[2J")");
  expect_refused("{" + entry(std::string(100'000, 'n'), "[1]", "[0,0]") + "}", 0, "nnn...");
}

}  // namespace
}  // namespace tutti::checkpoint
