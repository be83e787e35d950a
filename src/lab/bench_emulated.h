// A benchmark on an emulated cluster, each size as a job of its own, beside what the links allow.
#pragma once

#include <nlohmann/json.hpp>

#include "config/emulation.h"
#include "launch/launcher.h"

namespace tutti::lab {

// Runs `job`, one of the benchmarks' tasks, once for each size (and once for the table) of its payload. The
// listener puts each job's rows at the end of `rows`; they get
//   emulated               {hosts, link, per_host}: what passed the links in the job, warm-ups and checks
//                          included, which all rows of one size share;
//   link_bytes_per_second  what a plain TCP stream between two of the hosts gets, measured first;
//   bound_seconds          how long the busiest link is busy at least: of an all-reduce, and of servers where
//                          each process has a host of its own.
// Returns the first failure, or the last outcome. Throws as emulate::Cluster.
launch::Outcome bench_emulated(const config::Emulation& emulation, const launch::JobSpec& job,
                               const launch::Listener& listener, nlohmann::json& rows);

// How often a row's bytes must pass the busiest link, each way; an all-reduce with that of each of so many
// hosts. Pure.
double passes_of_busiest_link(const nlohmann::json& row, int hosts);

}  // namespace tutti::lab
