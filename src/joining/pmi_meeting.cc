#include "joining/pmi_meeting.h"

#include <poll.h>
#include <unistd.h>

#include <fcntl.h>
#include <algorithm>
#include <charconv>

#include "base/crypto.h"
#include "base/error.h"

namespace tutti::joining {
namespace {

// As in a meeting over TCP: one may prepare or train for hours before its next word. A process that ends is
// the process manager's to notice, and it ends the others.
constexpr auto kLongestBarrier = std::chrono::hours(24);

// Where the process manager says nothing about the length of values; all that are known allow more.
constexpr std::size_t kShortValue = 256;

// SLURM reads a request into so many bytes, though it allows a value as long as that. What stands around a
// value, but for the name of the space that it is kept in, is shorter than the second.
constexpr std::size_t kLongestLine = 1024;
constexpr std::size_t kAroundAValue = 96;

// How long the process manager may take for the last answer.
constexpr auto kLastAnswer = std::chrono::seconds(5);

// The value of a word of an answer: "rc" of "cmd=put_result rc=0 msg=success". A value ends with a blank.
std::string word_of(const std::string& line, std::string_view name) {
  for (std::size_t at = 0; at < line.size();) {
    const auto end = std::min(line.find(' ', at), line.size());
    const auto equals = line.find('=', at);
    if (equals < end && std::string_view(line).substr(at, equals - at) == name)
      return line.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return "";
}

std::size_t number_of(const std::string& text, std::size_t otherwise) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

// Values have neither blanks nor line ends, so a text travels as hexadecimal digits.
std::string bytes_from_hex(const std::string& hex, const std::string& key) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const char* begin = hex.data() + i;
    const auto [end, error] =
        std::from_chars(begin, begin + std::min<std::size_t>(2, hex.size() - i), value, 16);
    if (error != std::errc() || end != begin + 2)
      throw RunError(fmt::format("PMI gave back another value of {} than was put", key));
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace

PmiMeeting::PmiMeeting(int fd, Rank rank, int world, Clock::duration timeout)
    : fd_(fd), rank_(rank), world_(world) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // what this process starts in turn is none of the job
  const auto deadline = Deadline::in(timeout);
  ask("init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);
  const auto maxes = ask("get_maxes", "maxes", deadline);
  kvs_ = word_of(ask("get_my_kvsname", "my_kvsname", deadline), "kvsname");
  // Some count the zero at the end.
  longest_ = std::max<std::size_t>(number_of(word_of(maxes, "vallen_max"), kShortValue), 16) - 1;
  longest_ = std::min(longest_, kLongestLine - kAroundAValue - std::min(kvs_.size(), kLongestLine / 2));
  barrier(deadline);
}

void PmiMeeting::finish() {
  ask("finalize", "finalize_ack", Deadline::in(kLastAnswer));
}

std::string PmiMeeting::read_line(Deadline deadline) {
  std::size_t end = 0;
  while ((end = rest_.find('\n')) == std::string::npos) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    if (left == 0)
      throw RunError(
          fmt::format("rank {}: PMI has not answered for {:.0f} s: not all {} processes have come; it does "
                      "not say which",
                      to_int(rank_), std::chrono::duration<double>(deadline.waited()).count(), world_));
    pollfd p{fd_.get(), POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(left)) <= 0) continue;
    char some[4096];
    const ssize_t n = ::read(fd_.get(), some, sizeof some);
    if (n > 0) rest_.append(some, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR))
      throw RunError(fmt::format("rank {}: the process manager has closed PMI_FD", to_int(rank_)));
  }
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  return line;
}

std::string PmiMeeting::ask(const std::string& command, std::string_view answer, Deadline deadline) {
  const std::string line = "cmd=" + command + "\n";
  write_all(fd_.get(), std::as_bytes(std::span(line)), "cannot write to PMI_FD");
  std::string answered = read_line(deadline);
  // A value may be a secret: of a command that failed only its name is told.
  const std::string rc = word_of(answered, "rc");
  if (word_of(answered, "cmd") != answer || (!rc.empty() && rc != "0"))
    throw RunError(fmt::format("rank {}: PMI refuses {}{}", to_int(rank_),
                               command.substr(0, command.find(' ')),
                               rc.empty() ? "" : fmt::format(" with code {}", rc)));
  return answered;
}

std::string PmiMeeting::key(Rank of, std::size_t piece) const {
  return fmt::format("tutti-{}-{}-{}", round_, to_int(of), piece);
}

std::string PmiMeeting::get(Rank of, std::size_t piece, Deadline deadline) {
  const auto answer = ask(fmt::format("get kvsname={} key={}", kvs_, key(of, piece)), "get_result", deadline);
  return word_of(answer, "value");
}

void PmiMeeting::barrier(Deadline deadline) {
  ask("barrier_in", "barrier_out", deadline);
}

std::vector<std::string> PmiMeeting::all_gather(const std::string& mine) {
  const auto deadline = Deadline::in(kLongestBarrier);
  ++round_;
  const std::string hex = to_hex(std::as_bytes(std::span(mine)));
  // The first piece is their number.
  const std::size_t pieces = (hex.size() + longest_ - 1) / longest_;
  const auto put = [&](std::size_t piece, const std::string& value) {
    ask(fmt::format("put kvsname={} key={} value={}", kvs_, key(rank_, piece), value), "put_result",
        deadline);
  };
  put(0, std::to_string(pieces));
  for (std::size_t p = 0; p < pieces; ++p) put(p + 1, hex.substr(p * longest_, longest_));
  barrier(deadline);
  std::vector<std::string> texts;
  for (int r = 0; r < world_; ++r) {
    const std::size_t count = number_of(get(Rank{r}, 0, deadline), 0);
    std::string all;
    for (std::size_t p = 0; p < count; ++p) all += get(Rank{r}, p + 1, deadline);
    texts.push_back(bytes_from_hex(all, key(Rank{r}, 0)));
  }
  return texts;
}

}  // namespace tutti::joining
