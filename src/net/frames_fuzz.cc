// A peer's bytes where frames are expected: the first ones say how long.
#include "base/fuzz_input.h"
#include "net/tape.h"

namespace {

using namespace tutti;
using namespace tutti::net;

constexpr SessionKeys kKeys{.sending = {std::byte{1}}, .receiving = {std::byte{2}}};
constexpr SessionKeys kTheirKeys{.sending = kKeys.receiving, .receiving = kKeys.sending};
constexpr Rank kPeer{1};

// Four messages, every second one in windows.
void read_four(Tape& t, const std::uint8_t* lengths, std::size_t window_bytes,
               std::span<const std::byte> answer) {
  for (int message = 0; message < 4; ++message) {
    const std::size_t length = lengths[message];
    const Rank peers[] = {kPeer};
    t.wait_for_any(peers, std::chrono::milliseconds(0), {"listening"});
    send(t, kPeer, answer.first(std::min(answer.size(), length)), {"answering"});
    if (message % 2 == 0) {
      t.read(length);
      continue;
    }
    std::vector<std::byte> window(window_bytes);
    std::size_t seen = 0;
    const Incoming in[] = {{kPeer, window, length, [&](std::size_t offset, std::span<const std::byte> piece) {
                              TUTTI_CHECK(offset == seen && piece.size() <= window.size());
                              seen += piece.size();
                            }}};
    t.transfer({}, in, {"reading in windows"});
    TUTTI_CHECK(seen == length);
  }
}

// True frames with tags, of messages of these lengths, on which the input is laid: taken only where it
// changes nothing.
void tamper(Wire wire, const std::uint8_t* lengths, std::span<const std::byte> input) {
  Tape sender;
  sender.protect(kPeer, kTheirKeys, wire, kLine);
  for (int message = 0; message < 4; ++message) {
    const std::vector<std::byte> bytes(lengths[message], std::byte{7});
    send(sender, kPeer, bytes, {"sending"});
  }
  Tape t;
  t.ends = true;
  t.protect(kPeer, kKeys, wire, kLine);
  t.tape = sender.sent;
  bool changed = false;
  for (std::size_t i = 0; i < std::min(input.size(), t.tape.size()); ++i) {
    t.tape[i] ^= input[i];
    changed = changed || input[i] != std::byte{0};
  }
  fuzz::try_to([&] {
    read_four(t, lengths, kLine, input);
    TUTTI_CHECK(!changed, "a frame that was altered was taken");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const auto bytes = fuzz::bytes_of(data + 4, size - 4);
  tamper(Wire::auth, data, bytes);
  tamper(Wire::encrypt, data, bytes);
  Tape t;
  t.ends = true;
  t.tape.assign(bytes.begin(), bytes.end());
  return fuzz::try_to([&] { read_four(t, data, 7, bytes); });
}
