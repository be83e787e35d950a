#include "joining/secret.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <sstream>

#include "base/crypto.h"
#include "base/error.h"

namespace tutti::joining {
namespace {

namespace fs = std::filesystem;

// Whoever can guess a short one is in the job.
constexpr std::size_t kFewestBytes = 16;
constexpr std::size_t kMostBytes = 1 << 16;

// Why nobody may rely on this file or folder being the user's alone; empty: he may.
std::string why_not_private(const struct stat& about) {
  if (about.st_uid != ::geteuid())
    return fmt::format("belongs to user {}, not to {}", about.st_uid, ::geteuid());
  const unsigned others = about.st_mode & 077U;
  if (others != 0)
    return fmt::format("has mode {:04o}, so that others can get at it", about.st_mode & 07777U);
  return "";
}

std::string read_all(int fd, const fs::path& path) {
  std::string text(kMostBytes, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  if (n < 0) throw_errno(fmt::format("cannot read {}", path.string()));
  text.resize(static_cast<std::size_t>(n));
  return text;
}

std::optional<net::Secret> secret_from_hex(const std::string& hex) {
  net::Secret secret{};
  if (hex.size() != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    unsigned value = 0;
    const char* begin = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc() || end != begin + 2) return std::nullopt;
    secret[i] = static_cast<std::byte>(value);
  }
  return secret;
}

}  // namespace

net::Secret read_secret_file(const fs::path& path) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("--secret-file {}: {}", path.string(), why));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) refuse(fmt::format("cannot be read: {}", std::generic_category().message(errno)));
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) throw_errno("fstat");
  if (!S_ISREG(about.st_mode)) refuse("is no plain file");
  if (const auto why = why_not_private(about); !why.empty())
    refuse(why + "; make it with `(umask 077; head -c 32 /dev/urandom > FILE)`");
  const std::string text = read_all(fd.get(), path);
  if (text.size() < kFewestBytes)
    refuse(fmt::format("has {} bytes; a secret has at least {}", text.size(), kFewestBytes));
  // The file may serve many jobs: what it says is never a key itself.
  return hkdf_sha256(std::as_bytes(std::span(text)), {}, "tutti meeting");
}

Notice::Notice(fs::path folder, const std::string& job) : path_(std::move(folder)) {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno(fmt::format("cannot make {}", path_.string()));
  folder_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder_) throw_errno(fmt::format("cannot use {} for the secret of the job", path_.string()));
  struct stat about {};
  if (::fstat(folder_.get(), &about) != 0) throw_errno("fstat");
  if (const auto why = why_not_private(about); !why.empty())
    throw RunError(
        fmt::format("{} {}: no secret is put there; remove it, or set XDG_RUNTIME_DIR", path_.string(), why));
  // A job's name may hold anything.
  name_ = "job-" + sha256_hex(std::as_bytes(std::span(job))).substr(0, 16);
  path_ /= name_;
}

Notice::~Notice() {
  take_down();
}

void Notice::put_up(const Content& content) {
  while (!own_) {
    own_ = UniqueFd(::openat(folder_.get(), name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!own_) throw_errno(fmt::format("cannot make {}", path_.string()));
    if (::flock(own_.get(), LOCK_EX | LOCK_NB) != 0) {
      own_.reset();
      throw RunError(
          fmt::format("another job of the same name is meeting on this host ({} is taken): give each a "
                      "MASTER_PORT of its own",
                      path_.string()));
    }
    struct stat about {};
    if (::fstat(own_.get(), &about) != 0) throw_errno("fstat");
    if (about.st_nlink == 0) own_.reset();  // its owner took it down between our two calls
  }
  // Whoever reads sees all of it or no line end.
  const std::string text =
      fmt::format("{} {} {}\n", content.where.host, content.where.port, to_hex(content.secret));
  if (::ftruncate(own_.get(), 0) != 0) throw_errno(fmt::format("cannot write {}", path_.string()));
  write_all(own_.get(), std::as_bytes(std::span(text)), fmt::format("cannot write {}", path_.string()));
}

void Notice::take_down() {
  if (!own_) return;
  ::unlinkat(folder_.get(), name_.c_str(), 0);
  own_.reset();
}

std::optional<Notice::Content> Notice::read() const {
  const UniqueFd fd(::openat(folder_.get(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::nullopt;
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) throw_errno("fstat");
  if (!S_ISREG(about.st_mode) || !why_not_private(about).empty()) return std::nullopt;
  const std::string text = read_all(fd.get(), path_);
  if (!text.ends_with('\n')) return std::nullopt;
  Content content;
  std::string hex;
  std::istringstream words(text);
  if (!(words >> content.where.host >> content.where.port >> hex)) return std::nullopt;
  const auto secret = secret_from_hex(hex);
  if (!secret) return std::nullopt;
  content.secret = *secret;
  return content;
}

}  // namespace tutti::joining
