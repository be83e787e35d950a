#include "joining/notice.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <sstream>

#include "base/crypto.h"
#include "base/error.h"
#include "net/secret_file.h"

namespace tutti::joining {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 10;

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

Notice::Notice(fs::path folder, const std::string& job) : path_(std::move(folder)) {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno(fmt::format("cannot make {}", path_.string()));
  folder_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder_) throw_errno(fmt::format("cannot use {} for the secret of the job", path_.string()));
  struct stat about {};
  if (::fstat(folder_.get(), &about) != 0) throw_errno("fstat");
  if (const auto why = net::why_not_private(about); !why.empty())
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
  if (!S_ISREG(about.st_mode) || !net::why_not_private(about).empty()) return std::nullopt;
  const std::string text = read_start(fd.get(), kMostBytes, fmt::format("cannot read {}", path_.string()));
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
