// Where two runs begin to differ, by what their workers have recorded (train/record_files.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_view.h"

namespace tutti::lab {

// A line of a worker's record: what went through a step, by key, in the order of its making.
struct RecordedStep {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, std::string>> digests;
};

// By rank, steps rising.
using RecordedRun = std::vector<std::vector<RecordedStep>>;

// Throws DataError that names the file.
RecordedRun read_records(const std::filesystem::path& run, int workers);

// The first place that is not the same.
struct Place {
  std::int64_t step = 0;
  std::string stage;             // one of train::kRecordStages; of saved ones "checkpoint"
  std::string tensor;            // as the model calls it; of the optimizer's state "exp_avg.conv1.weight"
  std::vector<std::string> who;  // that have it otherwise: "rank-1"
  bool begins_so = false;        // it is what the runs begin with
  bool gradients_known = false;  // before the exchange, and the same on both sides unless the stage is theirs
  bool means_known = false;      // the same for their means
  std::string key() const;       // in the record of who[0]
};

// Steps that both have recorded, stages in their order, tensors in the model's. Gradients and buffers are
// compared by the unit that has computed them, so those of ranks only where both have as many; the rest by
// rank, and against rank 0 where the other run has no such rank. What one of the two has not recorded is not
// compared. Pure.
std::optional<Place> first_difference(const RecordedRun& a, const RecordedRun& b);

// The first element of the tensor at that place that differs.
struct ElementDifference {
  std::int64_t element = 0;  // in row-major order
  std::string index;         // "[3, 0, 2]"
  std::string first;         // the two values, with all digits
  std::string second;
  std::optional<std::uint64_t> ulps = std::nullopt;  // none: one of them is NaN
  std::int64_t differing = 0;                        // elements of the tensor
  std::int64_t elements = 0;
};

// Nothing if they are the same, or of other kinds.
std::optional<ElementDifference> first_element(const checkpoint::TensorView& a,
                                               const checkpoint::TensorView& b);

// Out of what --record-step has written; nothing if the files say that there is none. Throws DataError.
std::optional<ElementDifference> first_element(const std::filesystem::path& a, const std::filesystem::path& b,
                                               const Place& place, int workers_of_a, int workers_of_b);

}  // namespace tutti::lab
