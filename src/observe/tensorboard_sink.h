// Events as TensorBoard reads them.
//
// An event file is a row of records (TFRecord):
//
//   length, 8 bytes | masked CRC of the length, 4 | the record | masked CRC of the record, 4
//
// all little-endian. A record is a protobuf message Event {1: wall time, 2: step, 3: version, 5: Summary},
// and a Summary a list of {1: name, 2: value}. The CRC is CRC-32C.
#pragma once

#include <filesystem>

#include "base/file.h"
#include "observe/event.h"

namespace tutti::observe {

// Steps become loss/train, lr and samples_per_second; evaluations loss/test, accuracy/test and so on.
class TensorboardSink final : public EventSink {
 public:
  // Begins a file of its own in the folder, which is made if it is not there: TensorBoard joins those of a
  // run that was resumed. Throws RunError.
  explicit TensorboardSink(const std::filesystem::path& folder);

  // Each event is one write. Throws RunError.
  void emit(const Event& event) override;

 private:
  void write(const std::string& record);

  std::string name_;
  UniqueFd fd_;
};

// As event files have it: turned and moved, so that a CRC over bytes that hold CRCs is a good one.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace tutti::observe
