// What the servers of a job hold: the workers describe it when they join, and all must say the same.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "ps/server.h"
#include "ps/table.h"

namespace tutti::ps {

struct Contents {
  nlohmann::json model = nlohmann::json::array();  // [name, shape, type] of each parameter, for people
  std::vector<std::size_t> buckets = {};           // floats in each
  std::size_t piece_bytes = 1 << 20;               // buckets are cut into pieces of about this size
  std::vector<TableShape> tables = {};             // embedding tables, beside the buckets
  int partitions = 1;                              // of each table
};

// A slot of the optimizer's memory that servers keep beside the parameters: a worker tells it when it starts
// them, and learns it for a checkpoint.
struct StateSlot {
  std::vector<std::span<float>> buckets;
  std::vector<std::span<float>> tables;
};

// What both sides must agree on: what is trained, cut how, updated by what, under which rules.
nlohmann::json describe(const ServerOptions& options, const Contents& contents);

// The contents in a description. Throws ProtocolError if there are none.
Contents contents_in(const nlohmann::json& description);

// Where two descriptions differ, with both values: "model/3/1: the server has [5], the worker [7]".
std::string difference(const nlohmann::json& servers, const nlohmann::json& workers);

}  // namespace tutti::ps
