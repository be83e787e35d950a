// Frames, on a medium that a test writes itself.
#include "net/stream_transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "net/tape.h"
#include "net/tcp_transport.h"

namespace tutti::net {
namespace {

constexpr Activity kDoing{"reading"};

TEST(Frames, AreReadInTheirOrder) {
  Tape t;
  t.record({.sequence = 0, .length = 5}, "hello");
  t.record({.sequence = 1, .length = 0}, "");
  t.record({.sequence = 2, .length = 64}, std::string(64, 'x'));
  EXPECT_EQ(t.read(5), "hello");
  EXPECT_EQ(t.read(0), "");
  EXPECT_EQ(t.read(64), std::string(64, 'x'));
  EXPECT_TRUE(t.tape.empty()) << "padding was read, too";
}

TEST(Frames, AreWrittenWithNumbersAndWholeLines) {
  Tape t;
  for (const std::string_view text : {"hello", "", "again"}) {
    send(t, Rank{1}, std::as_bytes(std::span(text)), kDoing);
  }
  ASSERT_EQ(t.sent.size(), 5 * kLine);
  for (const auto& [line, sequence, length] : {std::tuple{0U, 0U, 5U}, {2U, 1U, 0U}, {3U, 2U, 5U}}) {
    FrameHeader header;
    std::memcpy(&header, t.sent.data() + line * kLine, sizeof header);
    EXPECT_EQ(header.magic, FrameHeader{}.magic);
    EXPECT_EQ(header.sequence, sequence);
    EXPECT_EQ(header.length, length);
  }
}

// Each of the three numbers of a header is looked at.
TEST(Frames, ThatAreNotTheNextOnesAreRefusedWithBothNumbers) {
  const auto refused = [](const FrameHeader& header) -> std::string {
    Tape t;
    t.record({.sequence = 0, .length = 5}, "hello");
    t.record(header, "again");
    EXPECT_EQ(t.read(5), "hello");
    try {
      t.read(5);
    } catch (const ProtocolError& e) {
      return e.what();
    }
    return "it was taken";
  };
  EXPECT_EQ(refused({.sequence = 1, .length = 5}), "it was taken");
  for (const std::uint32_t other : {0U, 2U}) {
    EXPECT_NE(refused({.sequence = other, .length = 5})
                  .find(fmt::format("message {} of 5 bytes in reading, expected message 1", other)),
              std::string::npos);
  }
  EXPECT_NE(refused({.sequence = 1, .length = 4}).find("of 4 bytes"), std::string::npos);
  EXPECT_NE(refused({.magic = 7, .sequence = 1, .length = 5}), "it was taken");
}

TEST(Frames, ThatNeverComeAreATimeout) {
  Tape t;
  try {
    t.read(1);
    ADD_FAILURE();
  } catch (const Timeout& e) {
    EXPECT_EQ(e.fault.peer, Rank{1});
    EXPECT_GE(e.fault.waited, std::chrono::milliseconds(300));
    EXPECT_LT(e.fault.waited, std::chrono::milliseconds(1500));
  }
}

TEST(Mesh, SecondCallerForOneRankIsTurnedAway) {
  constexpr auto kPatience = std::chrono::seconds(20);
  const Secret secret = make_secret();
  Mesh mesh(Rank{0}, 3, secret, "127.0.0.1");
  const Endpoint where = mesh.endpoint();
  std::uint64_t rejected_connections = 0;
  std::thread listener([&] { mesh.connect({{}, {}, {}}, {.timeout = kPatience}, &rejected_connections); });
  const auto first = dial(where, secret, Rank{1}, Rank{0}, Deadline::in(kPatience));
  EXPECT_THROW(dial(where, secret, Rank{1}, Rank{0}, Deadline::in(kPatience)), AuthError);
  EXPECT_THROW(dial(where, secret, Rank{0}, Rank{0}, Deadline::in(kPatience)), AuthError);  // itself
  EXPECT_THROW(dial(where, secret, Rank{3}, Rank{0}, Deadline::in(kPatience)), AuthError);  // nobody
  const auto second = dial(where, secret, Rank{2}, Rank{0}, Deadline::in(kPatience));
  listener.join();
  EXPECT_EQ(rejected_connections, 3U);
}

}  // namespace
}  // namespace tutti::net
