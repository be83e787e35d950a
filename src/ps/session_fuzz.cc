// What workers say to a server, from their description on. The first byte of the input says how many there
// are, and what the second one's description is like; then messages follow, each, where there are two
// workers, behind a byte that says whose it is, or that the worker is lost.
#include <cstring>

#include "base/fuzz_input.h"
#include "ps/contents.h"
#include "ps/message.h"
#include "ps/server.h"

namespace tutti::ps {
namespace {

// The server's end: workers first say their hello, then what the input has. Messages have no frames here.
class Script final : public net::Transport {
 public:
  Script(std::vector<std::string> hellos, std::span<const std::byte> rest)
      : hellos_(std::move(hellos)), rest_(rest) {}
  Rank rank() const override { return Rank{workers()}; }
  int world() const override { return workers() + 1; }
  const net::StatusBoard& board() const override { return board_; }
  net::PeerMemory* peer_memory() override { return nullptr; }
  void cancel() override {}
  void transfer(std::span<const net::Outgoing>, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    for (const net::Incoming& m : in) take(m.from, m.into, doing);
  }
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration,
                                   const net::Activity& doing) override {
    if (rest_.empty()) lose(peers.front(), doing);
    if (workers() == 1) return Rank{0};
    const auto who = std::to_integer<unsigned>(rest_.front());
    rest_ = rest_.subspan(1);
    const Rank from = peers[who % peers.size()];
    if (who >= 128) lose(from, doing);
    return from;
  }

 private:
  int workers() const { return static_cast<int>(hellos_.size()); }
  [[noreturn]] void lose(Rank peer, const net::Activity& doing) const {
    throw PeerLost({rank(), peer, doing.text(), std::chrono::milliseconds(0)});
  }
  void take(Rank from, std::span<std::byte> into, const net::Activity& doing) {
    std::string& hello = hellos_[static_cast<std::size_t>(to_int(from))];
    if (!hello.empty()) {
      TUTTI_CHECK(into.size() <= hello.size());
      std::memcpy(into.data(), hello.data(), into.size());
      hello.erase(0, into.size());
      return;
    }
    if (into.size() > rest_.size()) lose(from, doing);
    std::memcpy(into.data(), rest_.data(), into.size());
    rest_ = rest_.subspan(into.size());
  }

  std::vector<std::string> hellos_;
  std::span<const std::byte> rest_;
  const net::StatusBoard board_ = net::StatusBoard::create(3);
};

std::string hello_of(const ServerOptions& options, const Contents& contents) {
  const std::string text = describe(options, contents).dump();
  const Header header{.verb = Verb::hello, .bytes = text.size()};
  std::string hello(sizeof header, '\0');
  std::memcpy(hello.data(), &header, sizeof header);
  return hello + text;
}

void serve_input(std::span<const std::byte> input, Consistency consistency) {
  const auto mode = std::to_integer<unsigned>(input.front());
  const int workers = mode % 2 == 0 ? 1 : 2;
  const ServerOptions options{.workers = workers,
                              .first_server = workers,
                              .servers = 1,
                              .policy = {.consistency = consistency, .workers = workers},
                              .optimizer = {.kind = optim::Kind::adam, .lr = 0.1},
                              .survives_workers = workers == 2 && consistency != Consistency::sync};
  const Contents contents{.model = {{"weights", {40}, "float32"}},
                          .buckets = {30, 10},
                          .piece_bytes = 64,
                          .tables = {{.name = "words", .rows = 12, .width = 3}},
                          .partitions = 2};
  std::vector<std::string> hellos{hello_of(options, contents)};
  if (workers == 2) {
    Contents other = contents;
    if ((mode & 2U) != 0) other.model[0][1][0] = 41;
    if ((mode & 4U) != 0) other.buckets.push_back(1);
    hellos.push_back(hello_of(options, other));
  }
  Script script(std::move(hellos), input.subspan(1));
  serve(script, options);
}

}  // namespace
}  // namespace tutti::ps

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const auto input = fuzz::bytes_of(data, size);
  fuzz::try_to([&] { ps::serve_input(input, ps::Consistency::sync); });
  return fuzz::try_to([&] { ps::serve_input(input, ps::Consistency::ssp); });
}
