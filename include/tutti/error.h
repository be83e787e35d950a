// What the library throws: all of it is derived from std::runtime_error, and its text says what and where.
#pragma once

#include <stdexcept>

#include "tutti/export.h"

namespace tutti {

// It failed while it ran.
struct TUTTI_API RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Another process is lost or does not answer. Nothing of its session works after that.
struct TUTTI_API PeerError : RunError {
  using RunError::RunError;
};

// What was asked for cannot be done.
struct TUTTI_API UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An option, an argument or the order of calls is wrong.
struct TUTTI_API ConfigError : UsageError {
  using UsageError::UsageError;
};

// A file is missing, damaged or of another kind.
struct TUTTI_API DataError : UsageError {
  using UsageError::UsageError;
};

}  // namespace tutti
