#include "fetch/http.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "data/idx_fixture.h"
#include "fetch/http_fixture.h"
#include "fetch/url.h"

namespace tutti::fetch {
namespace {

using namespace data::fixture;
using namespace fixture;

const HttpLimits kLimits{.max_bytes = 1 << 20};

std::string get(const std::string& url, const HttpLimits& limits = kLimits) {
  const auto body = http_get(url, limits, {});
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

std::string error_in(const std::string& url, const HttpLimits& limits = kLimits) {
  return error_of<RunError>([&] { get(url, limits); });
}

TEST(Url, ReadsItsParts) {
  EXPECT_EQ(parse_url("http://a.org"), (Url{false, "a.org", "80", "/"}));
  EXPECT_EQ(parse_url("https://a.org:8443/x/y?z#part"), (Url{true, "a.org", "8443", "/x/y?z"}));
  EXPECT_EQ(parse_url("http://[::1]:80/x"), (Url{false, "::1", "80", "/x"}));
  EXPECT_EQ(parse_url("https://a.org:8443/x").text(), "https://a.org:8443/x");
}

TEST(Url, RefusesWhatItCannotMean) {
  for (const char* bad : {"ftp://a/", "a.org/x", "http://", "http:///x", "http://u@a/", "http://a:b/",
                          "http://a/ x", "http://a/\r\nHost: b"}) {
    EXPECT_NE(error_of<ConfigError>([&] { parse_url(bad); }), "") << bad;
  }
}

TEST(Url, FollowsRedirectsButNeverFromHttpsToHttp) {
  const Url from = parse_url("https://a.org/x");
  EXPECT_EQ(follow(from, "/y").text(), "https://a.org/y");
  EXPECT_EQ(follow(from, "https://b.org/y").text(), "https://b.org/y");
  EXPECT_NE(error_of<RunError>([&] { follow(from, "http://a.org/x"); }), "");
  EXPECT_NE(error_of<RunError>([&] { follow(from, "elsewhere"); }), "");
}

TEST(Http, GivesTheBodyAndReportsProgress) {
  const std::string body(200'000, 'b');
  HttpServer server({{"/f", HttpServer::ok(body)}});
  std::uint64_t last = 0;
  std::uint64_t of = 0;
  const auto got = http_get(server.address() + "/f", kLimits, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    of = total;
  });
  EXPECT_EQ(got.size(), body.size());
  EXPECT_EQ(last, body.size());
  EXPECT_EQ(of, body.size());
}

TEST(Http, ReadsChunkedBodies) {
  const std::string answer =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  HttpServer server({{"/f", answer}});
  EXPECT_EQ(get(server.address() + "/f"), "abcde");
}

TEST(Http, FollowsRedirects) {
  HttpServer server({{"/a", HttpServer::redirect("/b")}, {"/b", HttpServer::ok("there")}});
  EXPECT_EQ(get(server.address() + "/a"), "there");
}

TEST(Http, GivesUpOnARedirectLoop) {
  HttpServer server({{"/a", HttpServer::redirect("/a")}});
  EXPECT_EQ(error_in(server.address() + "/a"),
            fmt::format("cannot download {}/a: more than 5 redirects", server.address()));
}

TEST(Http, AMissingFileIsAStatusError) {
  HttpServer server(HttpServer::Answers{});
  try {
    get(server.address() + "/none");
    FAIL();
  } catch (const HttpStatusError& error) {
    EXPECT_EQ(error.status, 404u);
    EXPECT_EQ(error.what(),
              fmt::format("cannot download {}/none: the server answered 404 Not Found", server.address()));
  }
}

TEST(Http, NoticesATruncatedBody) {
  HttpServer server({{"/f", HttpServer::head("200 OK", 1000) + "short"}});
  EXPECT_NE(error_in(server.address() + "/f")
                .find("reading the answer: it was cut short after 5 bytes of the body"),
            std::string::npos);
}

TEST(Http, RefusesABodyOverTheLimit) {
  HttpServer server({{"/f", HttpServer::ok(std::string(2000, 'b'))},
                     {"/g", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(2000, 'b')}});
  const HttpLimits limits{.max_bytes = 1000};
  EXPECT_NE(error_in(server.address() + "/f", limits), "");
  EXPECT_NE(error_in(server.address() + "/g", limits), "");
}

TEST(Http, GivesUpOnASilentServer) {
  HttpServer server({{"/f", std::string()}});
  const HttpLimits limits{.max_bytes = 1000, .step_timeout = std::chrono::milliseconds(100)};
  EXPECT_NE(error_in(server.address() + "/f", limits).find("reading the answer: timed out"),
            std::string::npos);
}

TEST(Http, GivesUpOnAServerThatSendsTooLittleInAWindow) {
  HttpLimits limits{.max_bytes = 1000, .window = std::chrono::milliseconds(50), .least_bytes_in_window = 500};
  const TricklingServer body(HttpServer::head("200 OK", 1000), "b", 1000);
  const auto text = error_in(body.address() + "/f", limits);
  EXPECT_NE(text.find("reading the answer: it is too slow: "), std::string::npos) << text;
  EXPECT_NE(text.find(" bytes in 0.05 s, less than 500"), std::string::npos) << text;
  const TricklingServer endless_head("HTTP/1.1 200 OK\r\nX: ", "x", 1000);
  EXPECT_NE(error_in(endless_head.address() + "/f", limits).find("it is too slow: "), std::string::npos);
}

TEST(Http, GivesUpOnADownloadThatTakesTooLongInAll) {
  const HttpLimits limits{.max_bytes = 1000,
                          .least_bytes_in_window = 0,
                          .total_base = std::chrono::milliseconds(50),
                          .total_bytes_per_second = 1 << 20};
  const TricklingServer server(HttpServer::head("200 OK", 1000), "b", 1000);
  const auto text = error_in(server.address() + "/f", limits);
  EXPECT_NE(text.find("reading the answer: it takes longer than 0.05 s"), std::string::npos) << text;
}

TEST(Http, SlowServerThatKeepsThePaceIsReadToItsEnd) {
  const HttpLimits limits{.max_bytes = 100'000,
                          .window = std::chrono::milliseconds(1),
                          .least_bytes_in_window = 1,
                          .total_base = std::chrono::milliseconds(0),
                          .total_bytes_per_second = 100};  // 300 s for what comes
  const TricklingServer server(HttpServer::head("200 OK", 30'000), std::string(1000, 'b'), 30);
  EXPECT_EQ(get(server.address() + "/f", limits).size(), 30'000U);
}

TEST(Http, NamesAServerThatIsNotThere) {
  std::string address;
  { address = HttpServer(HttpServer::Answers{}).address(); }
  EXPECT_EQ(error_in(address + "/f").find("cannot download " + address + "/f: connecting: "), 0u);
}

// TLS with a certificate that nobody has signed but the server itself.
class SelfSignedServer {
 public:
  SelfSignedServer() {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    const auto* host = reinterpret_cast<const unsigned char*>("localhost");
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    SSL_CTX_use_certificate(context_, certificate);
    SSL_CTX_use_PrivateKey(context_, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~SelfSignedServer() { SSL_CTX_free(context_); }

  std::string address() const { return fmt::format("https://localhost:{}", server_.port()); }

 private:
  void serve(UniqueFd client) {
    SSL* tls = SSL_new(context_);
    SSL_set_fd(tls, client.get());
    SSL_accept(tls);
    SSL_free(tls);
  }

  SSL_CTX* context_ = SSL_CTX_new(TLS_server_method());
  LocalServer server_{[this](UniqueFd client) { serve(std::move(client)); }};
};

TEST(Http, RefusesACertificateNobodyVouchesFor) {
  SelfSignedServer server;
  const std::string text = error_in(server.address() + "/f");
  EXPECT_NE(text.find("TLS handshake: certificate refused: "), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::fetch
