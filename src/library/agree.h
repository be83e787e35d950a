// Work that may fail in one process of several, so that all of them know.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/collectives.h"

namespace tutti::library {

// Runs `work` in every process and returns everyone's result, by rank. Where it throws in one, every process
// throws: that one what it threw, the others an exception of the same kind (ConfigError, DataError,
// NonFinite, else RunError) that says which rank it was. A collective call; `work` makes none on `all`.
std::vector<std::string> all_or_none(collectives::Collectives& all, std::string_view label,
                                     const std::function<std::string()>& work);

// Throws ConfigError, naming two ranks, unless all have told the same of what they train: processes that were
// told different things would not find it out by themselves.
void require_same(const std::vector<std::string>& told);

}  // namespace tutti::library
