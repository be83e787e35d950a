#include "net/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace tutti::net {
namespace {

namespace fs = std::filesystem;

class SecretFile : public ::testing::Test {
 protected:
  fs::path file(const std::string& content = "a secret of some length", mode_t mode = 0600) const {
    const auto path = folder_.path() / "secret";
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }

  static Secret read(const fs::path& path) { return read_secret_file(path, "--secret-file"); }

  static void expect_refused(const fs::path& path, const std::string& why) {
    try {
      read(path);
      ADD_FAILURE() << path << " was read";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("--secret-file " + path.string() + ": " + why), std::string::npos)
          << e.what();
    }
  }

  ScratchFolder folder_;
};

TEST_F(SecretFile, ThatOthersCouldKnowIsRefusedWithTheReason) {
  expect_refused(file("a secret of some length", 0640), "has mode 0640");
  expect_refused(file("short"), "has 5 bytes");
  expect_refused(folder_.path(), "is no plain file");
  expect_refused(folder_.path() / "none", "cannot be read: No such file");
  if (::geteuid() == 0) {
    const auto path = file();
    ASSERT_EQ(::chown(path.c_str(), 1, 1), 0);
    expect_refused(path, "belongs to user 1, not to 0");
  }
}

TEST_F(SecretFile, GivesASecretOfItsContent) {
  const auto one = read(file("a secret of some length"));
  EXPECT_EQ(one, read(file("a secret of some length")));
  EXPECT_NE(one, read(file("a secret of any length!")));
}

}  // namespace
}  // namespace tutti::net
