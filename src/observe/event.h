// What happens in a run, as typed events.
//
// Libraries never print: they emit events to a sink. The command line draws a progress bar from them,
// metrics.jsonl keeps them, a report reads them back.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

namespace tutti::observe {

// Training begins; everything was checked.
struct RunStarted {
  std::int64_t first_step = 0;
  std::int64_t total_steps = 0;
  std::int64_t parameters = 0;
  std::string exchange;  // what moves the gradients, and why: "all-reduce by one-pass (shared memory: ...)"
};

// One optimizer step, as rank 0 saw it. Times in milliseconds.
struct StepDone {
  std::int64_t step = 0;  // counts from 1
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;    // counts from 1
  std::int64_t samples = 0;  // of all workers
  double loss = 0;           // mean over rank 0's samples
  double lr = 0;
  double gradient_norm = 0;  // before it was clipped; 0 without --clip-norm
  double step_ms = 0;
  double compute_ms = 0;
  double exchange_ms = 0;
  double exposed_exchange_ms = 0;
};

// What the model measures on the test part; in JSON each figure stands beside the step.
struct Evaluated {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t samples = 0;
  std::map<std::string, double> figures;  // "loss", "accuracy" and what else the model has
};

struct CheckpointSaved {
  std::int64_t step = 0;
  std::string path;
};

struct Resumed {
  std::int64_t step = 0;
  std::string path;
};

// Anything worth telling a person that is none of the above.
struct Note {
  std::string text;
};

using Event = std::variant<RunStarted, StepDone, Evaluated, CheckpointSaved, Resumed, Note>;

// {"event": "step", ...}; and back. from_json throws nlohmann::json::exception on anything else.
nlohmann::json to_json(const Event& event);
Event from_json(const nlohmann::json& json);

// One thread at a time emits. May block on its medium for a moment, never on a peer.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void emit(const Event& event) = 0;
};

}  // namespace tutti::observe
