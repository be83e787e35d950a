// What a run has left in its folder, as series to be drawn.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tutti::report {

// metrics.jsonl: "steps" {"step", "seconds" (in steps so far), "loss"}, thinned to what a picture can show,
// "evaluations" {"step", "seconds", "loss", "accuracy"}, "anatomy" (mean milliseconds a step: "compute",
// "exposed", "hidden", "waiting") and "exchange" (what moved the gradients, in words). Lines that are no
// events are counted in "damaged_lines". Null if there is no such file.
nlohmann::json read_metrics(const std::filesystem::path& run_folder);

// samples-rank-N.jsonl: for each process by rank "rank", "role", "cores", "network" and its samples,
// "seconds" counted from the first of all, as arrays of `points` at most, and never more than a picture can
// show. Empty where nothing was sampled.
nlohmann::json read_nodes(const std::filesystem::path& run_folder, std::size_t points);

}  // namespace tutti::report
