// What to take from a comparison, in words.
#pragma once

#include <string>
#include <vector>

#include "report/cell.h"

namespace tutti::report {

// For each model a sentence with its reason, over the cells with the most workers that nothing is wrong
// with; empty if there is none with more than one. A pure function.
std::string verdict(const std::vector<Cell>& cells);

}  // namespace tutti::report
