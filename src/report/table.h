// A comparison as a table in plain text.
#pragma once

#include <string>
#include <vector>

#include "report/cell.h"

namespace tutti::report {

// The first cell of one worker of the same model, which speed-ups refer to; null if there is none.
const Cell* baseline(const std::vector<Cell>& cells, const std::string& model);

// Strategy, workers, samples a second with the spread of its repeats, speed-up over the baseline, and so on;
// a line for each doubt below it. `states` says what becomes of the cells that have neither ended nor failed.
std::string render_table(const std::vector<Cell>& cells, const std::vector<std::string>& states = {});

}  // namespace tutti::report
