#include "observe/tensorboard_sink.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/scratch_folder.h"

namespace tutti::observe {
namespace {

// CRC-32C bit by bit, unmasked from what the sink's function gives.
std::uint32_t plain_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

std::uint32_t mask(std::uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

TEST(MaskedCrc32c, HasTheKnownAnswers) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  // RFC 3720, B.4, and the check value of the catalogue of CRCs.
  EXPECT_EQ(masked_crc32c("123456789"), mask(0xe3069283U));
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), mask(0x8a9136aaU));
  EXPECT_EQ(masked_crc32c(std::string(32, '\xff')), mask(0x62a8ab43U));
  EXPECT_EQ(masked_crc32c(rising), mask(0x46dd794eU));
  EXPECT_EQ(masked_crc32c(""), mask(0));
}

// A reader that knows the formats and nothing of the sink.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }

  std::string_view take(std::size_t count) {
    EXPECT_LE(count, rest_.size());
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  template <typename Number>
  Number fixed() {
    Number value{};
    const auto bytes = take(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  std::string_view record() {
    const auto length_bytes = rest_.substr(0, 8);
    const auto length = fixed<std::uint64_t>();
    EXPECT_EQ(fixed<std::uint32_t>(), mask(plain_crc32c(length_bytes)));
    const auto content = take(length);
    EXPECT_EQ(fixed<std::uint32_t>(), mask(plain_crc32c(content)));
    return content;
  }

 private:
  std::string_view rest_;
};

struct Read {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

Read parse_event(std::string_view record) {
  Read event;
  for (Reader r(record); !r.done();) {
    switch (r.varint()) {
      case 1 << 3 | 1:
        event.wall_time = r.fixed<double>();
        break;
      case 2 << 3 | 0:
        event.step = static_cast<std::int64_t>(r.varint());
        break;
      case 3 << 3 | 2:
        event.version = r.take(r.varint());
        break;
      case 5 << 3 | 2:
        for (Reader values(r.take(r.varint())); !values.done();) {
          EXPECT_EQ(values.varint(), 1U << 3 | 2);
          Reader value(values.take(values.varint()));
          EXPECT_EQ(value.varint(), 1U << 3 | 2);
          const std::string name(value.take(value.varint()));
          EXPECT_EQ(value.varint(), 2U << 3 | 5);
          event.scalars[name] = value.fixed<float>();
        }
        break;
      default:
        ADD_FAILURE() << "unknown field";
        return event;
    }
  }
  return event;
}

TEST(TensorboardSink, AnotherReaderFindsTheScalars) {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "tensorboard";
  {
    TensorboardSink sink(folder);
    sink.emit(RunStarted{0, 300, 7, "none"});
    sink.emit(StepDone{.step = 300, .samples = 64, .loss = 0.5, .lr = 0.25, .step_ms = 32});
    sink.emit(
        Evaluated{.step = 300, .epoch = 1, .samples = 10, .figures = {{"accuracy", 0.75}, {"loss", 2}}});
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].filename().string().find("events.out.tfevents."), 0U);
  const auto bytes = read_file(files[0]);
  Reader reader(bytes);
  std::vector<Read> events;
  while (!reader.done()) events.push_back(parse_event(reader.record()));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[1].wall_time, 1.5e9);
  EXPECT_EQ(events[1].step, 300);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{
                                   {"loss/train", 0.5F}, {"lr", 0.25F}, {"samples_per_second", 2000.F}}));
  EXPECT_EQ(events[2].step, 300);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"accuracy/test", 0.75F}, {"loss/test", 2.F}}));
}

}  // namespace
}  // namespace tutti::observe
