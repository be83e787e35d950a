#include "fetch/web_stream.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"

namespace tutti::fetch {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL, so that a server that hangs up could kill the
// process.
int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const int fd = *static_cast<int*>(BIO_get_data(bio));
  const ssize_t n = ::send(fd, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const int fd = *static_cast<int*>(BIO_get_data(bio));
  const ssize_t n = ::recv(fd, data, static_cast<std::size_t>(size), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(n);
}

long bio_ctrl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

using BioMethod = std::unique_ptr<BIO_METHOD, Freed<BIO_meth_free>>;

BioMethod make_bio_method() {
  BioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti socket"));
  BIO_meth_set_write(method.get(), bio_write);
  BIO_meth_set_read(method.get(), bio_read);
  BIO_meth_set_ctrl(method.get(), bio_ctrl);
  return method;
}

}  // namespace

struct WebStream::State {
  Url url;
  std::chrono::milliseconds step_timeout;
  UniqueFd socket;
  int fd = -1;  // of socket, where the BIO can point to it
  BioMethod bio_method;
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context;
  std::unique_ptr<SSL, Freed<SSL_free>> tls;

  [[noreturn]] void fail(const char* step, const std::string& why) const {
    throw RunError(fmt::format("cannot download {}: {}: {}", url.text(), step, why));
  }

  // True once the socket is ready; false if the time is up.
  bool ready(short events, const Deadline& deadline) const {
    pollfd entry{socket.get(), events, 0};
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
      const int n =
          ::poll(&entry, 1, static_cast<int>(std::min<long>(left, std::numeric_limits<int>::max())));
      if (n > 0) return true;
      if (n == 0 || deadline.passed()) return false;
      if (errno != EINTR) throw_errno("poll");
    }
  }

  void wait(short events, const Deadline& deadline, const char* step) const {
    if (!ready(events, deadline)) fail(step, "timed out");
  }

  // The reason why this address does not answer, or nothing if it does.
  std::optional<std::string> try_connect(const addrinfo& at) {
    socket = UniqueFd(::socket(at.ai_family, at.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol));
    if (!socket) return std::strerror(errno);
    if (::connect(socket.get(), at.ai_addr, at.ai_addrlen) == 0) return std::nullopt;
    if (errno != EINPROGRESS) return std::strerror(errno);
    if (!ready(POLLOUT, Deadline::in(step_timeout))) return "timed out";
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return std::strerror(error);
    return std::nullopt;
  }

  void connect() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0) {
      fail("resolving the host", ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, Freed<::freeaddrinfo>> owned(found);
    std::optional<std::string> why = "no address";
    for (const addrinfo* at = found; at != nullptr && why; at = at->ai_next) why = try_connect(*at);
    if (why) fail("connecting", *why);
    fd = socket.get();
  }

  void shake_hands() {
    constexpr const char* kStep = "TLS handshake";
    bio_method = make_bio_method();
    context.reset(SSL_CTX_new(TLS_client_method()));
    TUTTI_CHECK(context != nullptr);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    if (SSL_CTX_set_default_verify_paths(context.get()) != 1) fail(kStep, "no certificates to check against");
    tls.reset(SSL_new(context.get()));
    TUTTI_CHECK(tls != nullptr);
    SSL_set_verify(tls.get(), SSL_VERIFY_PEER, nullptr);
    if (SSL_set1_host(tls.get(), url.host.c_str()) != 1) fail(kStep, "bad host name");
    SSL_set_tlsext_host_name(tls.get(), url.host.c_str());
    BIO* bio = BIO_new(bio_method.get());
    BIO_set_data(bio, &fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls.get(), bio, bio);
    run_tls(kStep, [&] { return SSL_connect(tls.get()); });
  }

  // Repeats an operation of OpenSSL until it is through. Returns what it returned; 0 at the end of the
  // stream.
  template <class Operation>
  int run_tls(const char* step, Operation operation) {
    const Deadline deadline = Deadline::in(step_timeout);
    while (true) {
      ERR_clear_error();
      const int n = operation();
      if (n > 0) return n;
      switch (SSL_get_error(tls.get(), n)) {
        case SSL_ERROR_WANT_READ:
          wait(POLLIN, deadline, step);
          break;
        case SSL_ERROR_WANT_WRITE:
          wait(POLLOUT, deadline, step);
          break;
        case SSL_ERROR_ZERO_RETURN:
          return 0;
        default:
          fail(step, tls_error());
      }
    }
  }

  std::string tls_error() const {
    const long verdict = SSL_get_verify_result(tls.get());
    if (verdict != X509_V_OK) {
      return fmt::format("certificate refused: {}", X509_verify_cert_error_string(verdict));
    }
    const char* reason = ERR_reason_error_string(ERR_peek_error());
    return reason != nullptr ? reason : "the connection was cut";
  }

  // The same for the plain socket.
  template <class Operation>
  std::size_t run_plain(const char* step, short events, Operation operation) {
    const Deadline deadline = Deadline::in(step_timeout);
    while (true) {
      const ssize_t n = operation();
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno == EINTR) continue;
      if (errno != EAGAIN) fail(step, std::strerror(errno));
      wait(events, deadline, step);
    }
  }
};

WebStream::WebStream(const Url& url, std::chrono::milliseconds step_timeout)
    : state_(std::make_unique<State>()) {
  state_->url = url;
  state_->step_timeout = step_timeout;
  state_->connect();
  if (url.tls) state_->shake_hands();
}

WebStream::~WebStream() = default;

void WebStream::write(std::span<const std::byte> bytes) {
  constexpr const char* kStep = "sending the request";
  State& s = *state_;
  while (!bytes.empty()) {
    std::size_t n = 0;
    if (s.tls) {
      n = static_cast<std::size_t>(s.run_tls(
          kStep, [&] { return SSL_write(s.tls.get(), bytes.data(), static_cast<int>(bytes.size())); }));
      if (n == 0) s.fail(kStep, "the server hung up");
    } else {
      n = s.run_plain(kStep, POLLOUT, [&] { return ::send(s.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    }
    bytes = bytes.subspan(n);
  }
}

std::size_t WebStream::read(std::span<std::byte> out) {
  constexpr const char* kStep = "reading the answer";
  State& s = *state_;
  if (!s.tls) return s.run_plain(kStep, POLLIN, [&] { return ::recv(s.fd, out.data(), out.size(), 0); });
  const int most = static_cast<int>(std::min<std::size_t>(out.size(), std::numeric_limits<int>::max()));
  return static_cast<std::size_t>(s.run_tls(kStep, [&] { return SSL_read(s.tls.get(), out.data(), most); }));
}

}  // namespace tutti::fetch
