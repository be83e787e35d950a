#include "observe/tensorboard_sink.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <bit>
#include <boost/crc.hpp>
#include <chrono>
#include <span>

#include "base/error.h"

namespace tutti::observe {
namespace {

namespace fs = std::filesystem;

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The few parts of protobuf's encoding that an Event needs. A field begins with its number and its kind.
enum class Kind : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename Number>
std::string little_endian(Number value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

std::string field(unsigned number, Kind kind) {
  return varint(number << 3 | static_cast<unsigned>(kind));
}
std::string number_field(unsigned number, double value) {
  return field(number, Kind::fixed64) + little_endian(value);
}
std::string number_field(unsigned number, float value) {
  return field(number, Kind::fixed32) + little_endian(value);
}
std::string number_field(unsigned number, std::int64_t value) {
  return field(number, Kind::varint) + varint(static_cast<std::uint64_t>(value));
}
std::string bytes_field(unsigned number, std::string_view bytes) {
  return field(number, Kind::bytes) + varint(bytes.size()) + std::string(bytes);
}

using Scalars = std::map<std::string, double>;

std::string record_of(std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars) {
    summary += bytes_field(1, bytes_field(1, name) + number_field(2, static_cast<float>(value)));
  }
  return number_field(1, now_in_seconds()) + number_field(2, step) + bytes_field(5, summary);
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

TensorboardSink::TensorboardSink(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  // Milliseconds, so that a run that is resumed at once has another name, and a later one.
  name_ = (folder / fmt::format("events.out.tfevents.{:.3f}.tutti", now_in_seconds())).string();
  fd_ = UniqueFd(::open(name_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd_) throw_errno("cannot write " + name_);
  write(number_field(1, now_in_seconds()) + bytes_field(3, "brain.Event:2"));
}

void TensorboardSink::write(const std::string& record) {
  const std::string length = little_endian<std::uint64_t>(record.size());
  const std::string framed =
      length + little_endian(masked_crc32c(length)) + record + little_endian(masked_crc32c(record));
  write_all(fd_.get(), std::as_bytes(std::span(framed)), "cannot write " + name_);
}

void TensorboardSink::emit(const Event& event) {
  if (const auto* step = std::get_if<StepDone>(&event)) {
    write(record_of(step->step,
                    {{"loss/train", step->loss},
                     {"lr", step->lr},
                     {"samples_per_second", static_cast<double>(step->samples) / step->step_ms * 1000.0}}));
  } else if (const auto* evaluated = std::get_if<Evaluated>(&event)) {
    Scalars scalars;
    for (const auto& [name, value] : evaluated->figures) scalars[name + "/test"] = value;
    write(record_of(evaluated->step, scalars));
  }
}

}  // namespace tutti::observe
