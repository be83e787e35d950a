#include "lab/bench_links.h"

#include <array>
#include <vector>

#include "collectives/native.h"
#include "train/measure.h"

namespace tutti::lab {
namespace {

constexpr int kRoundTrips = 50;
constexpr std::size_t kMessageBytes = 256 << 10;
// A transfer is long enough when it takes this; before, the next is twice as long.
constexpr double kSecondsATransfer = 0.2;
constexpr std::uint64_t kMostMessages = 1 << 16;

constexpr net::Activity kDoing{"measuring a link"};

// What the lower rank of a pair asks the other for.
struct Question {
  enum class What : std::uint64_t { take, give, end };
  What what = What::end;
  std::uint64_t messages = 0;
};

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Pair {
 public:
  Pair(net::Transport& transport, Rank peer) : transport_(transport), peer_(peer) {}

  Link measure() {
    Link link{.from = to_int(transport_.rank()), .to = to_int(peer_)};
    std::vector<double> trips;
    for (int i = 0; i < kRoundTrips; ++i) {
      const auto begin = Clock::now();
      net::send(transport_, peer_, word_, kDoing);
      net::receive(transport_, peer_, word_, kDoing);
      trips.push_back(seconds_since(begin));
    }
    link.round_trip_s = train::quantile(trips, 0.5);
    link.there_bytes_per_second = rate(Question::What::take);
    link.back_bytes_per_second = rate(Question::What::give);
    ask({});
    return link;
  }

  void answer() {
    for (int i = 0; i < kRoundTrips; ++i) {
      net::receive(transport_, peer_, word_, kDoing);
      net::send(transport_, peer_, word_, kDoing);
    }
    while (true) {
      Question question;
      net::receive(transport_, peer_, bytes_of(question), kDoing);
      if (question.what == Question::What::end) return;
      move(question, question.what == Question::What::give);
    }
  }

 private:
  double rate(Question::What what) {
    for (std::uint64_t messages = 4;; messages *= 2) {
      const auto begin = Clock::now();
      const Question question{what, messages};
      ask(question);
      move(question, what == Question::What::take);
      const double seconds = seconds_since(begin);
      if (seconds < kSecondsATransfer && messages < kMostMessages) continue;
      return static_cast<double>(messages * kMessageBytes) / seconds;
    }
  }

  void ask(Question question) { net::send(transport_, peer_, bytes_of(question), kDoing); }

  // Who has sent everything waits for the other's word that it is there.
  void move(const Question& question, bool sends) {
    for (std::uint64_t i = 0; i < question.messages; ++i) {
      sends ? net::send(transport_, peer_, message_, kDoing)
            : net::receive(transport_, peer_, message_, kDoing);
    }
    sends ? net::receive(transport_, peer_, word_, kDoing) : net::send(transport_, peer_, word_, kDoing);
  }

  net::Transport& transport_;
  const Rank peer_;
  std::array<std::byte, 64> word_{};
  std::vector<std::byte> message_ = std::vector<std::byte>(kMessageBytes);
};

}  // namespace

void bench_links(net::Transport& transport, const std::function<void(const Link&)>& on_link) {
  collectives::NativeEngine all(transport);
  for (int a = 0; a < transport.world(); ++a) {
    for (int b = a + 1; b < transport.world(); ++b) {
      if (transport.rank() == Rank{a}) on_link(Pair(transport, Rank{b}).measure());
      if (transport.rank() == Rank{b}) Pair(transport, Rank{a}).answer();
      all.barrier("the next pair");  // two at a time would share links
    }
  }
}

}  // namespace tutti::lab
