// The rounds of a collective, as arrows to be drawn.
#pragma once

#include <nlohmann/json.hpp>

namespace tutti::report {

// Of each entry of a summary's "collectives": what it says, and "rounds", a list of transfers each, {"from",
// "to", "first", "count", "combine"} in elements. A collective that this build does not know, or whose world
// is too large for a picture, has none.
nlohmann::json schedules_of(const nlohmann::json& summary);

}  // namespace tutti::report
