// See README.md.
#pragma once

namespace gloo {
class Context;
}  // namespace gloo
