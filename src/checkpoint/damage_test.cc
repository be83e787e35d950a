// Every byte of a checkpoint counts: none can change, vanish or be added unnoticed.
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/small_checkpoint.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFiles{"model.safetensors", "optimizer.safetensors", "manifest.json"};

void overwrite(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// The one line that load gives up with; empty if it does not.
std::string refusal(const fs::path& folder) {
  try {
    load(folder);
  } catch (const DataError& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return {};
}

// Calls try_it with each file's path and content, and puts the content back afterwards.
template <typename Function>
void with_each_file(Function try_it) {
  const ScratchFolder run;
  const auto folder = SmallCheckpoint().save_to(run.path(), 1);
  for (const auto* name : kFiles) {
    const std::string content = read_file(folder / name);
    try_it(folder, folder / name, content);
    overwrite(folder / name, content);
    EXPECT_EQ(refusal(folder), "");
  }
}

TEST(Damage, EveryFlippedByteIsFoundInItsFile) {
  with_each_file([](const fs::path& folder, const fs::path& path, const std::string& content) {
    for (std::size_t i = 0; i < content.size(); ++i) {
      for (const int flip : {0x01, 0x20}) {
        std::string damaged = content;
        damaged[i] = static_cast<char>(damaged[i] ^ flip);
        overwrite(path, damaged);
        ASSERT_TRUE(refusal(folder).starts_with(path.string())) << path << " byte " << i << " ^ " << flip;
      }
    }
  });
}

TEST(Damage, EveryTruncationIsFound) {
  with_each_file([](const fs::path& folder, const fs::path& path, const std::string& content) {
    for (std::size_t length = 0; length < content.size(); ++length) {
      overwrite(path, content.substr(0, length));
      ASSERT_TRUE(refusal(folder).starts_with(path.string())) << path << " cut to " << length;
    }
  });
}

TEST(Damage, AddedBytesAreFound) {
  with_each_file([](const fs::path& folder, const fs::path& path, const std::string& content) {
    for (const auto* more : {" ", "\n", "x"}) {
      overwrite(path, content + more);
      ASSERT_TRUE(refusal(folder).starts_with(path.string())) << path;
    }
  });
}

TEST(Damage, MissingFileIsNamed) {
  with_each_file([](const fs::path& folder, const fs::path& path, const std::string&) {
    fs::remove(path);
    EXPECT_NE(refusal(folder).find(path.string()), std::string::npos);
  });
}

TEST(Damage, NamesTheTensorOrTheHeaderAndItsBytes) {
  const ScratchFolder run;
  const auto folder = SmallCheckpoint().save_to(run.path(), 1);
  const auto path = folder / "model.safetensors";
  const std::string content = read_file(path);
  const std::size_t data = content.size() - 32;  // two floats of fc.bias, six of fc.weight
  const auto refused_with_flip_at = [&](std::size_t place) {
    std::string damaged = content;
    damaged[place] ^= 1;
    overwrite(path, damaged);
    return refusal(folder);
  };
  const auto expected = [&](const std::string& part, std::size_t begin, std::size_t end) {
    return fmt::format("{}: damaged: {}, bytes {} to {}: SHA-256 differs from the manifest's", path.string(),
                       part, begin, end);
  };
  EXPECT_EQ(refused_with_flip_at(data + 7), expected("tensor \"fc.bias\"", data, data + 8));
  EXPECT_EQ(refused_with_flip_at(data + 8), expected("tensor \"fc.weight\"", data + 8, data + 32));
  EXPECT_EQ(refused_with_flip_at(0), expected("header", 0, data));
  overwrite(path, content.substr(0, data + 9));
  EXPECT_EQ(refusal(folder), fmt::format("{}: damaged: ends at byte {} of {}, within tensor \"fc.weight\"",
                                         path.string(), data + 9, data + 32));
}

TEST(Damage, FilesOfAnotherStepAreFound) {
  const ScratchFolder run;
  SmallCheckpoint small;
  const auto one = small.save_to(run.path(), 1);
  small.weight[3] = 5;
  const auto two = small.save_to(run.path(), 2);
  fs::copy_file(one / "model.safetensors", two / "model.safetensors", fs::copy_options::overwrite_existing);
  EXPECT_NE(refusal(two).find("tensor \"fc.weight\""), std::string::npos);
}

// A manifest whose digest is right but whose content is not of our making.
TEST(Damage, ForgedManifestsAreRefused) {
  const std::string good =
      to_text({.step = 1, .meta = {}, .files = {{"model.safetensors", 8, "ab", {{"t", 0, 8, "cd"}}}}});
  EXPECT_NO_THROW(parse_manifest(good, "m"));
  const auto forged = [&good](const char* key, const nlohmann::json& value) {
    auto all = nlohmann::json::parse(good);
    all.erase("manifest_sha256");
    all[key] = value;
    const std::string rest = all.dump(1) + "\n";
    all["manifest_sha256"] = sha256_hex(std::as_bytes(std::span(rest)));
    return all.dump(1) + "\n";
  };
  EXPECT_NO_THROW(parse_manifest(forged("step", 2), "m"));
  EXPECT_THROW(parse_manifest(forged("format", 2), "m"), DataError);
  EXPECT_THROW(parse_manifest(forged("step", "one"), "m"), DataError);
  EXPECT_THROW(parse_manifest(forged("files", 3), "m"), DataError);
  EXPECT_THROW(parse_manifest(forged("files", {{"x", 1}}), "m"), DataError);
  EXPECT_THROW(parse_manifest(forged("tensors", nullptr), "m"), DataError);
  EXPECT_THROW(parse_manifest(forged("tensors", {{"model.safetensors", {{"t", 1}}}}), "m"), DataError);
  EXPECT_THROW(parse_manifest(forged("more", 1), "m"), DataError);
  EXPECT_THROW(parse_manifest("[]", "m"), DataError);
  EXPECT_THROW(parse_manifest("", "m"), DataError);

  const StoredFile outside{"f", 4, "ab", {{"t", 0, 1000, "cd"}}};
  EXPECT_THROW(verify(outside, std::as_bytes(std::span("abc")), "f"), DataError);
}

}  // namespace
}  // namespace tutti::checkpoint
