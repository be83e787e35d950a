#include "ps/connection.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace tutti::ps {
namespace {

std::vector<Rank> servers_of(const ServerOptions& options) {
  std::vector<Rank> ranks;
  for (int s = 0; s < options.servers; ++s) ranks.push_back(Rank{options.first_server + s});
  return ranks;
}

}  // namespace

Connection::Connection(net::Transport& transport, const ServerOptions& options, Contents contents)
    : transport_(transport),
      options_(options),
      contents_(std::move(contents)),
      layout_(lay_out(contents_, options.servers)),
      servers_(servers_of(options)),
      requests_(transport, servers_, options.timeout) {
  const net::Activity doing{"joining the servers"};
  const std::string text = describe(options, contents_).dump();
  // All of them first: a server welcomes nobody before it has heard everybody.
  for (const Rank s : servers_) {
    send(transport_, s, {.verb = Verb::hello, .bytes = text.size()}, std::as_bytes(std::span(text)), doing);
  }
  for (const Rank s : servers_) {
    if (receive_header(transport_, s, doing).verb != Verb::welcome) {
      throw ProtocolError(fmt::format("rank {} did not welcome rank {}", to_int(transport.in_job(s)),
                                      to_int(transport.in_job(transport.rank()))));
    }
  }
}

void Connection::leave() {
  for (const Rank s : servers_) send(transport_, s, {.verb = Verb::leave}, {}, {"leaving the servers"});
}

std::vector<ServerReport> Connection::say_goodbye(bool another_follows) {
  const net::Activity doing{"saying goodbye to the servers"};
  std::vector<ServerReport> reports;
  for (const Rank s : servers_) {
    send(transport_, s, {.verb = Verb::bye, .slot = another_follows ? 1U : 0U}, {}, doing);
    const Header header = receive_header(transport_, s, doing);
    reports.push_back(nlohmann::json::parse(receive_text(transport_, s, header, doing)).get<ServerReport>());
  }
  return reports;
}

void Connection::fetch_state(Verb verb, std::uint32_t id, int server, std::uint32_t slot,
                             std::span<float> into) {
  const net::Activity doing{"fetching optimizer state"};
  const Rank rank = rank_of(server);
  send(transport_, rank, {.verb = verb, .piece = id, .slot = slot}, {}, doing);
  const Header header = receive_header(transport_, rank, doing);
  receive_payload(transport_, rank, header, std::as_writable_bytes(into), doing);
}

}  // namespace tutti::ps
