// A peer's bytes where frames are expected: the first ones say how long.
#include "base/fuzz_input.h"
#include "net/tape.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  using namespace tutti::net;
  if (size < 4) return 0;
  Tape t;
  t.ends = true;
  const auto bytes = fuzz::bytes_of(data + 4, size - 4);
  t.tape.assign(bytes.begin(), bytes.end());
  return fuzz::try_to([&] {
    for (int message = 0; message < 4; ++message) {
      const std::size_t length = data[message];
      const Rank peers[] = {Rank{1}};
      t.wait_for_any(peers, std::chrono::milliseconds(0), {"listening"});
      send(t, Rank{1}, bytes.first(std::min(bytes.size(), length)), {"answering"});
      if (message % 2 == 0) {
        t.read(length);
        continue;
      }
      std::vector<std::byte> window(7);
      std::size_t seen = 0;
      const Incoming in[] = {
          {Rank{1}, window, length, [&](std::size_t offset, std::span<const std::byte> piece) {
             TUTTI_CHECK(offset == seen && piece.size() <= window.size());
             seen += piece.size();
           }}};
      t.transfer({}, in, {"reading in windows"});
      TUTTI_CHECK(seen == length);
    }
  });
}
