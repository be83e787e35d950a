// What a link really carries.
#pragma once

#include <cstdint>

#include "launch/launcher.h"

namespace tutti::emulate {

// Sends so many bytes from one place to another by a plain TCP stream; bytes a second of the last four
// fifths, when the stream has come up to speed. Throws Timeout, PeerLost.
double stream_rate(const launch::Place& from, const launch::Place& to, std::uint64_t bytes);

}  // namespace tutti::emulate
