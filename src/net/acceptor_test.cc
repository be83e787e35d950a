#include "net/acceptor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <set>
#include <thread>

#include "base/error.h"
#include "net/dial.h"

namespace tutti::net {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

// An acceptor for rank 0 on its own thread, which lets every rank in once.
class AcceptorTest : public ::testing::Test {
 protected:
  ~AcceptorTest() override {
    io_.stop();
    runner_.join();
  }

  Endpoint where() const { return {"127.0.0.1", acceptor_.endpoint().port()}; }

  Tcp::socket connect_raw() {
    Tcp::socket socket(client_io_);
    socket.connect(acceptor_.endpoint());
    return socket;
  }

  // Until the listener has closed it.
  static void expect_closed(Tcp::socket& socket) {
    boost::system::error_code e;
    std::array<char, 512> buffer{};
    while (!e) socket.read_some(boost::asio::buffer(buffer), e);
    EXPECT_TRUE(e == boost::asio::error::eof || e == boost::asio::error::connection_reset) << e.message();
  }

  std::uint64_t rejected_connections() {
    std::promise<std::uint64_t> count;
    boost::asio::post(io_, [&] { count.set_value(acceptor_.rejected_connections()); });
    return count.get_future().get();
  }

  Secret secret_ = make_secret();
  Digest job_ = make_secret();
  Credentials ours_{secret_, {.job = job_, .wire = Wire::auth}};
  boost::asio::io_context io_;
  boost::asio::io_context client_io_;
  std::set<int> entered_;
  Acceptor acceptor_{io_,
                     "127.0.0.1",
                     PortRange{},
                     ours_,
                     Rank{0},
                     [this](Rank r) { return !entered_.contains(to_int(r)); },
                     [this](Rank r, Tcp::socket s, const SessionKeys&) {
                       entered_.insert(to_int(r));
                       sockets_.push_back(std::move(s));
                     }};
  std::vector<Tcp::socket> sockets_;
  std::thread runner_{[this] { io_.run(); }};
};

TEST_F(AcceptorTest, LetsInWhoKnowsTheSecret) {
  EXPECT_TRUE(dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience)));
  EXPECT_EQ(rejected_connections(), 0U);
}

TEST(Dial, InVainSaysWhere) {
  boost::asio::io_context io;
  Tcp::acceptor nobody(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const Endpoint where{"127.0.0.1", nobody.local_endpoint().port()};
  nobody.close();
  try {
    dial(where, make_secret(), Rank{1}, Rank{0}, Deadline::in(std::chrono::milliseconds(20)));
    FAIL() << "nobody listens";
  } catch (const Timeout& e) {
    EXPECT_EQ(e.fault.address, fmt::format("127.0.0.1:{}", where.port));
    EXPECT_NE(std::string(e.what()).find(e.fault.address), std::string::npos) << e.what();
  }
}

TEST_F(AcceptorTest, ClosesAndCountsGarbage) {
  auto socket = connect_raw();
  boost::asio::write(socket, boost::asio::buffer(std::string(4096, 'x')));
  expect_closed(socket);
  EXPECT_EQ(rejected_connections(), 1U);
  EXPECT_TRUE(dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience)));
}

TEST_F(AcceptorTest, ClosesAndCountsAHugeLength) {
  auto socket = connect_raw();
  boost::asio::write(socket, boost::asio::buffer(std::string(64, '\xff')));
  expect_closed(socket);
  EXPECT_EQ(rejected_connections(), 1U);
}

TEST_F(AcceptorTest, ClosesAndCountsAWrongSecret) {
  EXPECT_THROW(dial(where(), make_secret(), Rank{1}, Rank{0}, Deadline::in(kPatience)), AuthError);
  // That caller saw that the listener is none of his and left. One who answers all the same is closed, too.
  auto socket = connect_raw();
  const Hello hello = make_hello(Rank{1}, Rank{0});
  boost::asio::write(socket, boost::asio::buffer(&hello, sizeof hello));
  boost::asio::write(socket, boost::asio::buffer(std::string(sizeof(Response), 'r')));
  expect_closed(socket);
  EXPECT_EQ(rejected_connections(), 2U);
}

TEST_F(AcceptorTest, TellsACallerOfAnotherVersionItsOwnAndClosesAndCountsIt) {
  auto socket = connect_raw();
  Hello hello = make_hello(Rank{1}, Rank{0});
  hello.version = kProtocolVersion + 1;
  boost::asio::write(socket, boost::asio::buffer(&hello, sizeof hello));
  Refusal refusal;
  refusal.version = 0;
  boost::asio::read(socket, boost::asio::buffer(&refusal, sizeof refusal));
  EXPECT_EQ(refusal, Refusal{});
  expect_closed(socket);
  EXPECT_EQ(rejected_connections(), 1U);
  EXPECT_TRUE(dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience)));
}

TEST_F(AcceptorTest, CallerOfAnotherJobEndsAtOnceAndNamesBothAndIsCounted) {
  Credentials other = ours_;
  other.terms.job = make_secret();
  try {
    dial(where(), other, Rank{1}, Rank{0}, Deadline::in(kPatience));
    ADD_FAILURE() << "it was let in";
  } catch (const ProtocolError& e) {
    EXPECT_EQ(e.what(), fmt::format("rank 1: 127.0.0.1:{} has other terms: the job is {} there and {} here",
                                    where().port, to_hex(job_), to_hex(other.terms.job)));
  }
  other.terms = {.job = job_, .wire = Wire::plain};
  EXPECT_THROW(dial(where(), other, Rank{1}, Rank{0}, Deadline::in(kPatience)), ProtocolError);
  EXPECT_TRUE(dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience)));
  EXPECT_EQ(rejected_connections(), 2U);
}

TEST_F(AcceptorTest, TurnsAwayASecondCallerForOneRank) {
  const auto first = dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience));
  EXPECT_THROW(dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience)), AuthError);
  EXPECT_EQ(entered_.size(), 1U);
}

// By the listener, while the caller still waits: both who says nothing and who stops in the middle.
TEST_F(AcceptorTest, ClosesWhoDoesNotGetOnWithTheHandshake) {
  auto silent = connect_raw();
  auto halting = connect_raw();
  const Hello hello = make_hello(Rank{1}, Rank{0});
  boost::asio::write(halting, boost::asio::buffer(&hello, sizeof hello));
  for (Tcp::socket* socket : {&silent, &halting}) {
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ASSERT_EQ(::setsockopt(socket->native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    expect_closed(*socket);
  }
  EXPECT_EQ(rejected_connections(), 2U);
}

TEST_F(AcceptorTest, ManyIdleStrangersDoNotKeepARankOut) {
  std::vector<Tcp::socket> idle;
  for (int i = 0; i < 600; ++i) idle.push_back(connect_raw());
  EXPECT_TRUE(dial(where(), ours_, Rank{1}, Rank{0}, Deadline::in(kPatience)));
  EXPECT_GE(rejected_connections(), 600U - Acceptor::kPending);
}

}  // namespace
}  // namespace tutti::net
