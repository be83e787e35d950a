#include "joining/tcp_meeting.h"

#include <gtest/gtest.h>

#include <boost/asio/write.hpp>
#include <functional>
#include <thread>

#include "base/error.h"

namespace tutti::joining {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

// Rank 0 on this thread, others on threads of their own, each with its end of the meeting.
class Party {
 public:
  explicit Party(int world) : world_(world) {}
  ~Party() {
    for (auto& t : threads_) t.join();
  }

  void invite(int rank, const std::function<void(rendezvous::Meeting&)>& body, int counts = 0) {
    threads_.emplace_back([this, rank, body, counts] {
      TcpGuest guest(
          net::dial(host.endpoint(), secret, Rank{rank}, net::kRendezvous, Deadline::in(kPatience)),
          Rank{rank}, counts == 0 ? world_ : counts, kPatience);
      body(guest);
    });
  }

  // What the guest's end throws, as text.
  void expect_failure(int rank, std::string& what, int counts = 0) {
    threads_.emplace_back([this, rank, &what, counts] {
      try {
        TcpGuest guest(
            net::dial(host.endpoint(), secret, Rank{rank}, net::kRendezvous, Deadline::in(kPatience)),
            Rank{rank}, counts == 0 ? world_ : counts, kPatience);
        guest.all_gather("");
      } catch (const std::exception& e) {
        what = e.what();
      }
    });
  }

  void join() {
    for (auto& t : threads_) t.join();
    threads_.clear();
  }

  const net::Secret secret = net::make_secret();

 private:
  int world_;

 public:
  TcpHost host{"127.0.0.1", {}, secret, world_};

 private:
  std::vector<std::thread> threads_;
};

TEST(TcpMeeting, EveryoneHearsWhatEveryoneSaid) {
  constexpr int kWorld = 5;
  Party party(kWorld);
  const auto text_of = [](int rank, int round) {
    // Also what is empty, long, or no text at all.
    return round == 0 ? std::string()
                      : std::string(static_cast<std::size_t>(rank) * 30'000, '\0') + "\xff" +
                            std::to_string(rank + round);
  };
  const auto talk = [&](rendezvous::Meeting& meeting) {
    EXPECT_EQ(meeting.world(), kWorld);
    EXPECT_EQ(meeting.address(), "127.0.0.1");
    for (int round = 0; round < 3; ++round) {
      const auto texts = meeting.all_gather(text_of(to_int(meeting.rank()), round));
      ASSERT_EQ(texts.size(), static_cast<std::size_t>(kWorld));
      for (int r = 0; r < kWorld; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r, round));
    }
  };
  for (int r = kWorld - 1; r > 0; --r) party.invite(r, talk);
  party.host.wait_for_all(Deadline::in(kPatience));
  talk(party.host);
}

TEST(TcpMeeting, RanksThatDoNotComeAreNamedToThoseWhoDid) {
  Party party(4);
  std::string heard;
  party.expect_failure(2, heard);
  try {
    party.host.wait_for_all(Deadline::in(std::chrono::seconds(1)));
    ADD_FAILURE();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("for rank 1, 3, which did not come"), std::string::npos) << e.what();
  }
  party.join();
  EXPECT_NE(heard.find("for rank 1, 3, which did not come"), std::string::npos) << heard;
}

TEST(TcpMeeting, OneThatCountsOtherProcessesIsToldWithBothNumbers) {
  for (const int rank : {1, 4}) {
    Party party(3);
    std::string heard;
    party.expect_failure(rank, heard, 5);
    EXPECT_THROW(party.host.wait_for_all(Deadline::in(kPatience)), ConfigError);
    party.join();
    EXPECT_EQ(heard, fmt::format("rank {} counts 5 processes, and rank 0 3", rank));
  }
}

TEST(TcpMeeting, OneThatEndsIsNamedToAll) {
  Party party(3);
  std::string heard;
  party.invite(1, [](rendezvous::Meeting&) {});  // and leaves
  party.expect_failure(2, heard);
  party.host.wait_for_all(Deadline::in(kPatience));
  try {
    party.host.all_gather("");
    ADD_FAILURE();
  } catch (const PeerLost& e) {
    EXPECT_EQ(e.fault.peer, Rank{1});
  }
  party.join();
  EXPECT_NE(heard.find("rank 1"), std::string::npos) << heard;
}

TEST(TcpMeeting, StrangersChangeNothing) {
  Party party(2);
  net::Tcp::endpoint where(boost::asio::ip::make_address("127.0.0.1"), party.host.endpoint().port);
  boost::asio::io_context io;
  std::vector<net::Tcp::socket> strangers;
  for (int i = 0; i < 400; ++i) {
    strangers.emplace_back(io).connect(where);
    boost::system::error_code closed;
    if (i % 2 == 0) boost::asio::write(strangers.back(), boost::asio::buffer(std::string(200, 'x')), closed);
  }
  party.invite(1, [](rendezvous::Meeting& m) { EXPECT_EQ(m.all_gather("b")[0], "a"); });
  party.host.wait_for_all(Deadline::in(kPatience));
  EXPECT_EQ(party.host.all_gather("a")[1], "b");
}

TEST(TcpMeeting, WrongSecretIsSaidOnBothSides) {
  Party party(2);
  std::thread wrong([&] {
    EXPECT_THROW(net::dial(party.host.endpoint(), net::make_secret(), Rank{1}, net::kRendezvous,
                           Deadline::in(kPatience)),
                 AuthError);
  });
  try {
    party.host.wait_for_all(Deadline::in(std::chrono::seconds(2)));
    ADD_FAILURE();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("they did not know the secret"), std::string::npos) << e.what();
  }
  wrong.join();
}

}  // namespace
}  // namespace tutti::joining
