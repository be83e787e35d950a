// Somebody between two ranks who has the wire in his hands, but not the secret.
#include <gtest/gtest.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "net/tcp_transport.h"

namespace tutti::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr Activity kDoing{"all-reduce", "bucket 2"};

enum class Deed { nothing, flips_header, flips_tag, flips_payload, flips_padding, repeats, drops, swaps };

// Stands between rank 1, which calls it, and rank 0, which it calls, and does something to one frame that
// goes from 1 to 0.
class Proxy {
 public:
  Proxy(Endpoint to, Deed deed, int frame) : deed_(deed), frame_(frame) {
    runner_ = std::thread([this, to] {
      caller_ = listener_.accept();
      listener_.close();
      server_.connect({asio::ip::make_address(to.host), to.port});
      caller_.set_option(Tcp::no_delay(true));
      server_.set_option(Tcp::no_delay(true));
      std::thread back([this] { pass(server_, caller_, SIZE_MAX); });
      pass(caller_, server_, sizeof(Hello) + sizeof(Response));
      pass_frames();
      pass(caller_, server_, SIZE_MAX);
      back.join();
    });
  }
  ~Proxy() { runner_.join(); }  // when both have closed

  Endpoint endpoint() const { return {"127.0.0.1", port_}; }

 private:
  using Frame = std::vector<std::byte>;

  // Bytes as they come, so many of them or until one side ends; then the other does.
  static void pass(Tcp::socket& from, Tcp::socket& to, std::size_t bytes) {
    error_code e;
    std::array<std::byte, 4096> buffer;
    while (bytes > 0 && !e) {
      const auto n = from.read_some(asio::buffer(buffer.data(), std::min(buffer.size(), bytes)), e);
      if (n > 0) asio::write(to, asio::buffer(buffer.data(), n), e);
      bytes -= n;
    }
    error_code ignored;
    if (e) to.shutdown(Tcp::socket::shutdown_both, ignored);
  }

  Frame read_frame() {
    FrameHeader header;
    error_code e;
    asio::read(caller_, asio::buffer(&header, sizeof header), e);
    if (e) return {};
    Frame frame(framed(std::min<std::size_t>(kFrameBytes, header.length - header.offset)));
    std::memcpy(frame.data(), &header, sizeof header);
    asio::read(caller_, asio::buffer(frame.data() + sizeof header, frame.size() - sizeof header), e);
    return frame;
  }

  void write_frame(const Frame& frame) {
    error_code ignored;
    asio::write(server_, asio::buffer(frame), ignored);
  }

  void pass_frames() {
    for (int i = 0; i < frame_; ++i) write_frame(read_frame());
    Frame frame = read_frame();
    if (frame.empty()) return;
    switch (deed_) {
      case Deed::nothing:
        break;
      case Deed::flips_header:
        frame[offsetof(FrameHeader, reserved)] ^= std::byte{1};
        break;
      case Deed::flips_tag:
        frame[offsetof(FrameHeader, tag) + 3] ^= std::byte{1};
        break;
      case Deed::flips_payload:
        frame[sizeof(FrameHeader) + 2] ^= std::byte{1};
        break;
      case Deed::flips_padding:
        frame.back() ^= std::byte{1};
        break;
      case Deed::repeats:
        write_frame(frame);
        break;
      case Deed::drops:
        return;
      case Deed::swaps:
        write_frame(read_frame());
        break;
    }
    write_frame(frame);
  }

  const Deed deed_;
  const int frame_;
  asio::io_context io_;
  Tcp::acceptor listener_{io_, {asio::ip::address_v4::loopback(), 0}};
  const std::uint16_t port_ = listener_.local_endpoint().port();
  Tcp::socket caller_{io_};
  Tcp::socket server_{io_};
  std::thread runner_;
};

// Rank 1 sends these to rank 0: frames 0 and 1, then 2 to 4, then 5 and 6.
constexpr std::size_t kLengths[] = {100, 40'001, 2 * kFrameBytes + 5, 64, 7};

std::vector<std::byte> message(std::size_t number) {
  std::vector<std::byte> bytes(kLengths[number]);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + number);
  return bytes;
}

struct Result {
  std::size_t messages = 0;  // that arrived as they were sent
  std::string failure = {};  // that ended rank 0
};

Result send_past(Wire wire, Deed deed, int frame) {
  const Credentials credentials(make_secret(), {.wire = wire});
  const TransportOptions options{.timeout = kPatience};
  Mesh first(Rank{0}, 2, credentials, "127.0.0.1");
  Mesh second(Rank{1}, 2, credentials, "127.0.0.1");
  Proxy proxy(first.endpoint(), deed, frame);
  std::thread sender([&] {
    const auto transport = second.connect({proxy.endpoint(), {}}, options);
    try {
      for (std::size_t i = 0; i < std::size(kLengths); ++i) send(*transport, Rank{0}, message(i), kDoing);
      std::byte done;
      receive(*transport, Rank{0}, {&done, 1}, kDoing);
    } catch (const PeerLost&) {  // rank 0 has ended
    }
  });
  Result result;
  {
    const auto transport = first.connect({{}, {}}, options);
    try {
      for (std::size_t i = 0; i < std::size(kLengths); ++i) {
        std::vector<std::byte> got(kLengths[i]);
        receive(*transport, Rank{1}, got, kDoing);
        if (got == message(i)) ++result.messages;
      }
      const std::byte done{};
      send(*transport, Rank{1}, {&done, 1}, kDoing);
    } catch (const ProtocolError& e) {
      result.failure = e.what();
    }
  }
  sender.join();
  return result;
}

class Tampering : public ::testing::TestWithParam<Wire> {};

TEST_P(Tampering, NothingIsFoundWhereNobodyTampers) {
  const auto result = send_past(GetParam(), Deed::nothing, 0);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.messages, std::size(kLengths));
}

TEST_P(Tampering, FlippedBitIsFoundAtItsFrame) {
  for (const Deed deed : {Deed::flips_header, Deed::flips_tag, Deed::flips_payload}) {
    EXPECT_EQ(send_past(GetParam(), deed, 0).failure,
              "rank 0: frame 0 from rank 1 was altered on its way (message 0 of 100 bytes in all-reduce of "
              "bucket 2)");
    const auto inside = send_past(GetParam(), deed, 3);
    EXPECT_EQ(inside.messages, 2U);
    EXPECT_EQ(inside.failure,
              fmt::format("rank 0: frame 3 from rank 1 was altered on its way (message 2 of {} bytes, from "
                          "byte {} in all-reduce of bucket 2)",
                          kLengths[2], kFrameBytes));
  }
  const auto behind = send_past(GetParam(), Deed::flips_padding, 1);
  EXPECT_EQ(behind.messages, 1U);
  EXPECT_EQ(
      behind.failure,
      "rank 0: what rank 1 sent behind message 1 of 40001 bytes in all-reduce of bucket 2 are no zeros");
}

TEST_P(Tampering, RepeatedFrameIsFound) {
  const auto result = send_past(GetParam(), Deed::repeats, 1);
  EXPECT_EQ(result.messages, 2U);
  EXPECT_EQ(result.failure,
            fmt::format("rank 0: rank 1 sent message 1 of 40001 bytes in all-reduce of bucket 2, expected "
                        "message 2 of {} bytes; this is in the place of frame 2 of the connection: it was "
                        "repeated, or came late",
                        kLengths[2]));
  const auto inside = send_past(GetParam(), Deed::repeats, 2);
  EXPECT_EQ(inside.messages, 2U);
  EXPECT_NE(inside.failure.find("place of frame 3 of the connection: it was repeated"), std::string::npos)
      << inside.failure;
}

TEST_P(Tampering, DroppedFrameIsFoundByTheOneBehindIt) {
  const auto result = send_past(GetParam(), Deed::drops, 1);
  EXPECT_EQ(result.messages, 1U);
  EXPECT_NE(result.failure.find("place of frame 1 of the connection: one before it was dropped"),
            std::string::npos)
      << result.failure;
  const auto inside = send_past(GetParam(), Deed::drops, 3);
  EXPECT_EQ(inside.messages, 2U);
  EXPECT_NE(
      inside.failure.find(fmt::format("from byte {} in all-reduce of bucket 2, expected message 2 of {} "
                                      "bytes, from byte {}",
                                      2 * kFrameBytes, kLengths[2], kFrameBytes)),
      std::string::npos)
      << inside.failure;
}

TEST_P(Tampering, FramesThatChangedPlacesAreFoundAtTheFirst) {
  const auto result = send_past(GetParam(), Deed::swaps, 3);
  EXPECT_EQ(result.messages, 2U);
  EXPECT_NE(
      result.failure.find("place of frame 3 of the connection: one before it was dropped, or comes late"),
      std::string::npos)
      << result.failure;
}

INSTANTIATE_TEST_SUITE_P(All, Tampering, ::testing::Values(Wire::auth, Wire::encrypt),
                         [](const auto& p) { return std::string(name_of(p.param)); });

// What the tags are for: without them a flipped bit passes for a number.
TEST(PlainWire, LetsAFlippedBitPass) {
  const auto result = send_past(Wire::plain, Deed::flips_payload, 0);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.messages, std::size(kLengths) - 1);
}

}  // namespace
}  // namespace tutti::net
