// Calls of MPI whose failure is an exception.
#pragma once

#include <mpi.h>

#include "base/error.h"

namespace tutti::mpi {

// Throws RunError with MPI's own words for anything but MPI_SUCCESS.
inline void call(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RunError(fmt::format("{}: {}", what, text));
}

}  // namespace tutti::mpi
