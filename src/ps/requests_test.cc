#include "ps/requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <optional>
#include <string>

#include "base/error.h"
#include "net/inproc.h"

namespace tutti::ps {
namespace {

constexpr std::chrono::seconds kLong(60);
constexpr Rank kServer{1};

// Asks for pieces of one number, and notes the answers.
class Asker final : public AnswerHandler {
 public:
  Asker(Requests& requests, net::Transport& transport, std::uint32_t piece, int most = 1024)
      : requests_(requests), transport_(transport), piece_(piece), most_(most) {
    requests_.attach(*this);
  }
  ~Asker() override { requests_.stop(); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  void ask(int times) {
    {
      const auto lock = requests_.lock();
      for (int i = 0; i < times; ++i) {
        ++away_;
        requests_.post(lock, [this] { send_one(); });
      }
    }
    requests_.notify();
  }
  void wait() {
    auto lock = requests_.lock();
    requests_.wait(lock, [&] { return away_ == 0; });
  }
  int answers() const { return answers_; }
  int most_under_way() const { return most_under_way_; }

  bool handles(const Header& answer) const override { return answer.piece == piece_; }
  bool on_answer(const Header& /*answer*/, Rank /*from*/, const net::Activity& /*doing*/) override {
    const auto lock = requests_.lock();
    ++answers_;
    --under_way_;
    --away_;
    requests_.answered(lock);
    return true;
  }
  std::optional<Rank> awaited() const override { return kServer; }
  bool may_send() const override { return under_way_ < most_; }

 private:
  void send_one() {
    {
      const auto lock = requests_.lock();
      most_under_way_ = std::max(most_under_way_, ++under_way_);
    }
    send(transport_, kServer, {.verb = Verb::pull, .piece = piece_}, {}, {"asking"});
  }

  Requests& requests_;
  net::Transport& transport_;
  const std::uint32_t piece_;
  const int most_;
  // Guarded by the requests' lock.
  int away_ = 0;
  int under_way_ = 0;
  int most_under_way_ = 0;
  int answers_ = 0;
};

struct CountsDownAtTheEnd {
  std::latch& latch;
  ~CountsDownAtTheEnd() { latch.count_down(); }
};

// Rank 0 does this; rank 1 answers so many requests, with what it is asked for or with `instead`, and then
// stays, silent, until rank 0 has ended.
void run_with_answers(int answers, const std::function<void(net::Transport&, Requests&)>& worker,
                      std::optional<std::uint32_t> instead = std::nullopt) {
  std::latch ended(1);
  net::run_as_threads(net::Medium::memory, 2, kLong, [&](net::Transport& t) {
    if (t.rank() == kServer) {
      for (int i = 0; i < answers; ++i) {
        const Header asked = receive_header(t, Rank{0}, {"answering"});
        send(t, Rank{0}, {.verb = Verb::piece, .piece = instead.value_or(asked.piece)}, {}, {"answering"});
      }
      return ended.wait();
    }
    const CountsDownAtTheEnd end{ended};
    Requests requests(t, {kServer}, kLong);
    worker(t, requests);
  });
}

TEST(Requests, AnswersGoToTheClientThatTheyAreFor) {
  run_with_answers(12, [](net::Transport& t, Requests& requests) {
    Asker first(requests, t, 0);
    Asker second(requests, t, 1);
    first.ask(5);
    second.ask(7);
    first.wait();
    second.wait();
    EXPECT_EQ(first.answers(), 5);
    EXPECT_EQ(second.answers(), 7);
    EXPECT_GT(requests.take_busy_time(), Clock::duration::zero());
    EXPECT_EQ(requests.take_busy_time(), Clock::duration::zero());
  });
}

TEST(Requests, AnswerThatIsForNobodyEndsThem) {
  const auto worker = [](net::Transport& t, Requests& requests) {
    Asker asker(requests, t, 0);
    asker.ask(1);
    try {
      asker.wait();
      ADD_FAILURE();
    } catch (const ProtocolError& e) {
      EXPECT_NE(std::string(e.what()).find("piece 9"), std::string::npos) << e.what();
    }
    const auto lock = requests.lock();
    EXPECT_TRUE(requests.failed(lock));
  };
  run_with_answers(1, worker, 9);
}

TEST(Requests, NothingLeavesWhileAClientHasAllUnderWayThatItMay) {
  run_with_answers(20, [](net::Transport& t, Requests& requests) {
    Asker asker(requests, t, 0, 3);
    asker.ask(20);
    asker.wait();
    EXPECT_EQ(asker.answers(), 20);
    EXPECT_LE(asker.most_under_way(), 3);
  });
}

// In the middle of a step, and its server never answers.
TEST(Requests, ClientThatGoesWaitsForNoAnswer) {
  run_with_answers(0, [](net::Transport& t, Requests& requests) {
    Asker asker(requests, t, 0);
    asker.ask(1);
  });
}

}  // namespace
}  // namespace tutti::ps
