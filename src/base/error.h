// The two kinds of failure.
//
// What can happen in the world (a peer dies, a file is damaged, a flag is wrong) is a typed exception, here
// or, where users of the library catch it, in tutti/error.h. Each carries one line that says what and where;
// `main` turns UsageError's family into exit code 2 (the input was wrong before anything ran) and RunError's
// family into exit code 1. What cannot happen unless we made a mistake is TUTTI_CHECK.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/rank.h"
#include "tutti/error.h"

namespace tutti {

// Who failed to answer whom, in what, and for how long.
struct PeerFault {
  Rank rank{};            // who noticed
  Rank peer{};            // who is to blame; below 0: the rendezvous, where all meet
  std::string operation;  // e.g. "all-reduce of bucket 2, step 17"
  std::chrono::milliseconds waited{0};
  std::string address = {};  // where the peer was called in vain, HOST:PORT; empty if it was connected
};

// A peer is gone: its process ended or its connection closed.
struct PeerLost : PeerError {
  explicit PeerLost(PeerFault f);
  PeerFault fault;
};

// A peer is there and does not answer within the deadline.
struct Timeout : PeerError {
  explicit Timeout(PeerFault f);
  PeerFault fault;
};

// A loss, a gradient or a parameter is NaN or infinite. Starting again would only come here again.
struct NonFinite : RunError {
  using RunError::RunError;
  // "rank 1: step 17: the loss is nan; ...", with advice; `step` counts from 1.
  NonFinite(Rank rank, std::int64_t step, const std::string& what);
};

// Somebody could not prove that he knows the job's secret.
struct AuthError : RunError {
  using RunError::RunError;
};

// Two ranks disagree about what to do next (a length, a sequence number): a bug or a mixed-up job, never
// retried.
struct ProtocolError : RunError {
  using RunError::RunError;
};

// Throws std::system_error's text for errno as a RunError: "open build/x: Permission denied".
[[noreturn]] void throw_errno(const std::string& what);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace tutti

// A bug if false. The detail is a fmt format string with its arguments.
#define TUTTI_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::tutti::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
