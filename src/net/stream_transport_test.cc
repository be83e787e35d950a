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

TEST(Frames, WithOtherThanZerosBehindThemAreRefused) {
  Tape t;
  t.record({.sequence = 0, .length = 5}, "hello");
  t.tape.back() = std::byte{1};
  EXPECT_THROW(t.read(5), ProtocolError);
}

constexpr SessionKeys kKeys{.sending = {std::byte{1}}, .receiving = {std::byte{2}}};
constexpr SessionKeys kTheirKeys{.sending = kKeys.receiving, .receiving = kKeys.sending};

// What rank 0 would read if a tape that is protected so had sent these messages.
std::vector<std::byte> recorded(Wire wire, std::size_t frame_bytes,
                                const std::vector<std::string>& messages) {
  Tape sender;
  sender.protect(Rank{1}, kTheirKeys, wire, frame_bytes);
  for (const auto& m : messages) send(sender, Rank{1}, std::as_bytes(std::span(m)), kDoing);
  return sender.sent;
}

class SealedFrames : public ::testing::TestWithParam<Wire> {
 protected:
  std::string refused(std::vector<std::byte> tape, const std::vector<std::size_t>& lengths) const {
    Tape t;
    t.ends = true;
    t.protect(Rank{1}, kKeys, GetParam(), kFrame);
    t.tape = std::move(tape);
    try {
      for (const std::size_t length : lengths) t.read(length);
    } catch (const ProtocolError& e) {
      return e.what();
    }
    return "it was taken";
  }

  static constexpr std::size_t kFrame = 2 * kLine;
};

TEST_P(SealedFrames, AreCutFromAMessageAndBecomeItAgain) {
  const std::vector<std::string> messages = {
      "hello", "", std::string(kFrame, 'a'), std::string(kFrame + 1, 'b'), std::string(3 * kFrame, 'c'),
      "end"};
  Tape t;
  t.protect(Rank{1}, kKeys, GetParam(), kFrame);
  t.tape = recorded(GetParam(), kFrame, messages);
  // A header a frame: of the message of two frames the second holds a byte, in a line of its own.
  EXPECT_EQ(t.tape.size(), (2 + 1 + 3 + 3 + 2 + 9 + 2) * kLine);
  for (const auto& m : messages) EXPECT_EQ(t.read(m.size()), m);
  EXPECT_TRUE(t.tape.empty());
}

TEST_P(SealedFrames, AreHandedOnOneByOne) {
  std::string sent(3 * kFrame + 7, '.');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 26);
  Tape t;
  t.protect(Rank{1}, kKeys, GetParam(), kFrame);
  t.tape = recorded(GetParam(), kFrame, {sent});
  t.tape[t.tape.size() - kLine] ^= std::byte{1};  // the last frame's first byte
  std::vector<std::byte> window(kFrame + 5);
  std::string got;
  const Incoming in[] = {
      {Rank{1}, window, sent.size(), [&](std::size_t offset, std::span<const std::byte> piece) {
         EXPECT_EQ(offset, got.size());
         got.append(reinterpret_cast<const char*>(piece.data()), piece.size());
       }}};
  EXPECT_THROW(t.transfer({}, in, kDoing), ProtocolError);
  EXPECT_EQ(got, sent.substr(0, 3 * kFrame)) << "all frames but the altered one, which nobody has seen";
}

TEST_P(SealedFrames, WithAnyOtherBitAreRefused) {
  const std::string message(kLine + 3, 'x');
  const auto tape = recorded(GetParam(), kFrame, {message});
  EXPECT_EQ(refused(tape, {message.size()}), "it was taken");
  for (std::size_t at = 0; at < tape.size(); ++at) {
    auto altered = tape;
    altered[at] ^= std::byte{0x10};
    EXPECT_NE(refused(altered, {message.size()}), "it was taken") << "byte " << at;
  }
}

TEST_P(SealedFrames, OfAnotherConnectionOrDirectionAreRefused) {
  Tape other;  // its frames as they went to us, not from us
  other.protect(Rank{1}, kKeys, GetParam(), kFrame);
  send(other, Rank{1}, std::as_bytes(std::span(std::string_view("hello"))), kDoing);
  EXPECT_NE(refused(other.sent, {5}).find("frame 0 from rank 1 was altered on its way"), std::string::npos);
}

TEST_P(SealedFrames, ThatArePlainAreRefused) {
  Tape plain;
  send(plain, Rank{1}, std::as_bytes(std::span(std::string_view("hello"))), kDoing);
  EXPECT_NE(refused(plain.sent, {5}), "it was taken");
}

TEST_P(SealedFrames, HideTheMessageIfTheyAreEncrypted) {
  const auto tape = recorded(GetParam(), kFrame, {"a secret of some length"});
  const std::string_view bytes(reinterpret_cast<const char*>(tape.data()), tape.size());
  EXPECT_EQ(bytes.find("secret") == std::string_view::npos, GetParam() == Wire::encrypt);
}

INSTANTIATE_TEST_SUITE_P(All, SealedFrames, ::testing::Values(Wire::auth, Wire::encrypt),
                         [](const auto& p) { return std::string(name_of(p.param)); });

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
