// A worker's messages to a server, from its description on.
#include <cstring>

#include "base/fuzz_input.h"
#include "ps/contents.h"
#include "ps/message.h"
#include "ps/server.h"

namespace tutti::ps {
namespace {

// Rank 1, the server: rank 0 first says a right hello, then what the input has. Messages have no frames here.
class Script final : public net::Transport {
 public:
  Script(std::string hello, std::span<const std::byte> rest) : hello_(std::move(hello)), rest_(rest) {}
  Rank rank() const override { return Rank{1}; }
  int world() const override { return 2; }
  const net::StatusBoard& board() const override { return board_; }
  net::PeerMemory* peer_memory() override { return nullptr; }
  void cancel() override {}
  void transfer(std::span<const net::Outgoing>, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    for (const net::Incoming& m : in) take(m.into, doing);
  }
  std::optional<Rank> wait_for_any(std::span<const Rank>, Clock::duration,
                                   const net::Activity& doing) override {
    if (hello_.empty() && rest_.empty()) end(doing);
    return Rank{0};
  }

 private:
  [[noreturn]] static void end(const net::Activity& doing) {
    throw PeerLost({Rank{1}, Rank{0}, doing.text(), std::chrono::milliseconds(0)});
  }
  void take(std::span<std::byte> into, const net::Activity& doing) {
    if (!hello_.empty()) {
      TUTTI_CHECK(into.size() <= hello_.size());
      std::memcpy(into.data(), hello_.data(), into.size());
      hello_.erase(0, into.size());
      return;
    }
    if (into.size() > rest_.size()) end(doing);
    std::memcpy(into.data(), rest_.data(), into.size());
    rest_ = rest_.subspan(into.size());
  }

  std::string hello_;
  std::span<const std::byte> rest_;
  const net::StatusBoard board_ = net::StatusBoard::create(2);
};

void serve_input(std::span<const std::byte> input, Consistency consistency) {
  const ServerOptions options{.workers = 1,
                              .first_server = 1,
                              .servers = 1,
                              .policy = {.consistency = consistency, .workers = 1},
                              .optimizer = {.kind = optim::Kind::adam, .lr = 0.1}};
  const Contents contents{.model = {{"weights", {40}, "float32"}},
                          .buckets = {30, 10},
                          .piece_bytes = 64,
                          .tables = {{.name = "words", .rows = 12, .width = 3}},
                          .partitions = 2};
  const std::string text = describe(options, contents).dump();
  const Header header{.verb = Verb::hello, .bytes = text.size()};
  std::string hello(sizeof header, '\0');
  std::memcpy(hello.data(), &header, sizeof header);
  Script script(hello + text, input);
  serve(script, options);
}

}  // namespace
}  // namespace tutti::ps

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const auto input = fuzz::bytes_of(data, size);
  fuzz::try_to([&] { ps::serve_input(input, ps::Consistency::sync); });
  return fuzz::try_to([&] { ps::serve_input(input, ps::Consistency::ssp); });
}
