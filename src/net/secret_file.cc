#include "net/secret_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"

namespace tutti::net {
namespace {

// Whoever can guess a short one is in the job.
constexpr std::size_t kFewestBytes = 16;
constexpr std::size_t kMostBytes = 1 << 16;

}  // namespace

// Why nobody may rely on this file or folder being the user's alone; empty: he may.
std::string why_not_private(const struct stat& about) {
  if (about.st_uid != ::geteuid())
    return fmt::format("belongs to user {}, not to {}", about.st_uid, ::geteuid());
  const unsigned others = about.st_mode & 077U;
  if (others != 0)
    return fmt::format("has mode {:04o}, so that others can get at it", about.st_mode & 07777U);
  return "";
}

Secret read_secret_file(const std::filesystem::path& path, const std::string& setting) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("{} {}: {}", setting, path.string(), why));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) refuse(fmt::format("cannot be read: {}", std::generic_category().message(errno)));
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) throw_errno("fstat");
  if (!S_ISREG(about.st_mode)) refuse("is no plain file");
  if (const auto why = why_not_private(about); !why.empty())
    refuse(why + "; make it with `(umask 077; head -c 32 /dev/urandom > FILE)`");
  const std::string text = read_start(fd.get(), kMostBytes, fmt::format("cannot read {}", path.string()));
  if (text.size() < kFewestBytes)
    refuse(fmt::format("has {} bytes; a secret has at least {}", text.size(), kFewestBytes));
  // The file may serve many jobs: what it says is never a key itself.
  return hkdf_sha256(std::as_bytes(std::span(text)), {}, "tutti meeting");
}

}  // namespace tutti::net
