#include "net/acceptor.h"

#include <fcntl.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <list>

#include "base/error.h"

namespace tutti::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Workers must not inherit what only the launcher listens on.
void close_on_exec(int fd) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

struct Acceptor::Shared : std::enable_shared_from_this<Shared> {
  Shared(asio::io_context& io, const Credentials& c, Rank me, Admission a, Entry e, std::size_t at_most)
      : acceptor(io),
        pause(io),
        credentials(c),
        self(me),
        admit(std::move(a)),
        enter(std::move(e)),
        most_pending(at_most) {}

  bool listen(const asio::ip::address& address, std::uint16_t port);
  void accept_next();
  void refuse_oldest();
  void start(Tcp::socket socket);

  Tcp::acceptor acceptor;
  asio::steady_timer pause;  // after a failed accept, e.g. for want of descriptors
  Credentials credentials;
  Rank self;
  Admission admit;
  Entry enter;
  std::uint64_t rejected_connections = 0;
  std::size_t most_pending;
  std::list<std::weak_ptr<Session>> pending;  // the oldest first; each takes itself out when it is done
};

// One caller's handshake. Keeps itself alive through the operations it waits for.
class Acceptor::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Shared> shared, Tcp::socket socket)
      : shared_(std::move(shared)), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  // `place` is its own in the list of those that are pending.
  void start(std::list<std::weak_ptr<Session>>::iterator place) {
    place_ = place;
    timer_.expires_after(kHandshakeTime);
    timer_.async_wait([self = shared_from_this()](error_code e) {
      if (!e) self->refuse();
    });
    read(hello_, [this] {
      if (const auto refusal = net::refuse(hello_)) {
        refusal_ = *refusal;
        return write(refusal_, [this] { refuse(); });
      }
      const auto challenge = answer(shared_->credentials, hello_, shared_->self);
      if (!challenge) return refuse();
      challenge_ = *challenge;
      write(challenge_, [this] { read(response_, [this] { decide(); }); });
    });
  }

  void refuse() {
    if (done_) return;
    ++shared_->rejected_connections;
    finish();
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  void decide() {
    const Rank from{hello_.from};
    const Secret& secret = shared_->credentials.secret;
    if (!accept(secret, hello_, challenge_, response_)) return refuse();
    const bool admitted = shared_->admit(from);
    welcome_.accepted = admitted ? 1 : 0;
    // Eight bytes into a fresh socket: never blocks, so that nobody else is admitted between asking and
    // entering.
    error_code e;
    asio::write(socket_, asio::buffer(&welcome_, sizeof welcome_), e);
    if (e || !admitted) return refuse();
    finish();
    shared_->enter(from, std::move(socket_), keys_of_listener(secret, hello_, challenge_));
  }

  void finish() {
    done_ = true;
    timer_.cancel();
    shared_->pending.erase(place_);
  }

  template <typename T, typename Next>
  void read(T& into, Next next) {
    asio::async_read(socket_, asio::buffer(&into, sizeof into),
                     [self = shared_from_this(), next](error_code e, std::size_t) {
                       if (self->done_) return;
                       e ? self->refuse() : next();
                     });
  }

  template <typename T, typename Next>
  void write(const T& from, Next next) {
    asio::async_write(socket_, asio::buffer(&from, sizeof from),
                      [self = shared_from_this(), next](error_code e, std::size_t) {
                        if (self->done_) return;
                        e ? self->refuse() : next();
                      });
  }

  std::shared_ptr<Shared> shared_;
  Tcp::socket socket_;
  asio::steady_timer timer_;
  std::list<std::weak_ptr<Session>>::iterator place_;
  Hello hello_;
  Refusal refusal_;
  Challenge challenge_;
  Response response_;
  Welcome welcome_;
  bool done_ = false;
};

void Acceptor::Shared::refuse_oldest() {
  if (const auto oldest = pending.front().lock()) return oldest->refuse();
  pending.pop_front();
}

void Acceptor::Shared::start(Tcp::socket socket) {
  if (pending.size() >= most_pending) refuse_oldest();
  close_on_exec(socket.native_handle());
  const auto session = std::make_shared<Session>(shared_from_this(), std::move(socket));
  session->start(pending.insert(pending.end(), session));
}

void Acceptor::Shared::accept_next() {
  acceptor.async_accept([self = shared_from_this()](error_code e, Tcp::socket socket) {
    if (!self->acceptor.is_open()) return;
    if (!e) {
      self->start(std::move(socket));
      return self->accept_next();
    }
    // Strangers may have taken every descriptor that this process can have.
    if (e == asio::error::no_descriptors && !self->pending.empty()) {
      self->refuse_oldest();
      return self->accept_next();
    }
    self->pause.expires_after(std::chrono::milliseconds(50));
    self->pause.async_wait([self](error_code cancelled) {
      if (!cancelled && self->acceptor.is_open()) self->accept_next();
    });
  });
}

// False if the port is taken.
bool Acceptor::Shared::listen(const asio::ip::address& address, std::uint16_t port) {
  const Tcp::endpoint where(address, port);
  error_code e;
  acceptor.open(where.protocol());
  close_on_exec(acceptor.native_handle());
  acceptor.set_option(Tcp::acceptor::reuse_address(true));
  acceptor.bind(where, e);
  // Of two that are bound to a port at the same time only one gets to listen.
  if (!e) acceptor.listen(asio::socket_base::max_listen_connections, e);
  if (!e) return true;
  acceptor.close();
  if (e != asio::error::address_in_use) throw boost::system::system_error(e);
  return false;
}

Acceptor::Acceptor(asio::io_context& io, const std::string& address, PortRange ports,
                   const Credentials& credentials, Rank self, Admission admit, Entry enter,
                   std::size_t pending)
    : shared_(std::make_shared<Shared>(io, credentials, self, std::move(admit), std::move(enter), pending)) {
  try {
    const auto digits = asio::ip::make_address(address);
    int port = ports.first;
    while (port <= ports.last && !shared_->listen(digits, static_cast<std::uint16_t>(port))) ++port;
    if (port > ports.last) throw boost::system::system_error(asio::error::address_in_use);
  } catch (const boost::system::system_error& e) {
    const std::string port = ports.any()                 ? "any"
                             : ports.first == ports.last ? std::to_string(ports.first)
                                                         : text_of(ports);
    throw RunError(fmt::format("cannot listen on {}, port {}: {}", address, port, e.code().message()));
  }
  shared_->accept_next();
}

Acceptor::~Acceptor() {
  close();
}

Tcp::endpoint Acceptor::endpoint() const {
  return shared_->acceptor.local_endpoint();
}

std::uint64_t Acceptor::rejected_connections() const {
  return shared_->rejected_connections;
}

void Acceptor::close() {
  error_code ignored;
  shared_->acceptor.close(ignored);
  shared_->pause.cancel();
  while (!shared_->pending.empty()) shared_->refuse_oldest();
}

}  // namespace tutti::net
