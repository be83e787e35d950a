#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

std::string describe(const PeerFault& f, const char* verdict) {
  const auto peer = to_int(f.peer) < 0 ? "the rendezvous" : fmt::format("rank {}", to_int(f.peer));
  return fmt::format("rank {}: {} {} in {}{}{} (waited {:.1f} s)", to_int(f.rank), peer, verdict, f.operation,
                     f.address.empty() ? "" : " at ", f.address,
                     static_cast<double>(f.waited.count()) / 1000.0);
}

}  // namespace

PeerLost::PeerLost(PeerFault f) : PeerError(describe(f, "was lost")), fault(std::move(f)) {}

Timeout::Timeout(PeerFault f) : PeerError(describe(f, "did not answer")), fault(std::move(f)) {}

NonFinite::NonFinite(Rank rank, std::int64_t step, const std::string& what)
    : RunError(fmt::format("rank {}: step {}: {}; a smaller learning rate may help, or to skip such steps "
                           "(--on-nonfinite skip; in the library skip_nonfinite)",
                           to_int(rank), step, what)) {}

void throw_errno(const std::string& what) {
  throw RunError(fmt::format("{}: {}", what, std::strerror(errno)));
}

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  throw std::logic_error(fmt::format("bug at {}:{}: {} does not hold{}{}", file, line, condition,
                                     detail.empty() ? "" : ": ", detail));
}

}  // namespace tutti
