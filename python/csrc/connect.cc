// The ranks tell each other through the store, in turn:
//
//   1. which host they are on, and rank 0 the secret;
//   2. the first of each host, for shared memory: its process and descriptors;
//   3. whether they could open that memory. If one could not (a container of its own, say), all do without;
//   4. with TCP, where they listen.
//
// Whoever reaches the store is in the job by PyTorch's own rules: the store decides who is which rank. So the
// secret adds no risk there. It keeps everybody else from the ports.
#include "connect.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "exchange.h"
#include "net/secret_file.h"
#include "net/segment_transport.h"
#include "net/tcp_transport.h"
#include "net/wire.h"

namespace tutti::torch_backend {
namespace {

// Takes the first word off a text. No streams here: where a compiler puts the C++ library into shared
// objects, as some that PyTorch's images carry do, those of this module would look for locales in that of the
// program.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto end = std::min(text.find(' '), text.size());
  const auto word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// -1 where it is none.
int take_number(std::string_view& text) {
  const auto word = take_word(text);
  int number = -1;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_word(const char* path) {
  const std::string text = read_file(path);
  return text.substr(0, text.find_first_of(" \n"));
}

// Two ranks on the same one can open each other's descriptors. A network namespace is a host: that is how
// clusters are emulated, and how containers are told apart.
std::string host_identity() {
  std::string identity = first_word("/proc/sys/kernel/random/boot_id");
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::error_code error;
    identity += '/' + std::filesystem::read_symlink(space, error).string();
  }
  return identity + '/' + std::to_string(::geteuid());
}

net::Secret parse_secret(const std::string& hex) {
  net::Secret secret{};
  if (hex.size() != 2 * secret.size()) throw RunError("the store holds no secret of this process group");
  for (std::size_t i = 0; i < secret.size(); ++i) {
    secret[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return secret;
}

// Our end of a way to `host`: nothing is sent to ask the kernel which of our addresses that would be.
std::string own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (!fd || ::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return "";
  }
  char text[INET_ADDRSTRLEN] = {};
  return ::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) == nullptr ? "" : text;
}

// Between hosts. The master itself is often told to be "localhost": then others could not reach it.
std::string address_for_others(const std::string& master) {
  for (const std::string& host : {master, std::string()}) {
    std::string name = host;
    if (name.empty()) {
      char own[HOST_NAME_MAX + 1] = {};
      if (::gethostname(own, sizeof own - 1) == 0) name = own;
    }
    const std::string address = own_address_towards(name);
    if (!address.empty() && !address.starts_with("127.")) return address;
  }
  throw ConfigError("the address by which other hosts reach this one is not known; set TUTTI_ADDRESS to it");
}

// ---- shared memory ----

struct SharedMemory {
  std::shared_ptr<const net::StatusBoard> board;
  std::shared_ptr<const net::Segment> collectives;
  std::shared_ptr<const net::Segment> messages;
  std::shared_ptr<const net::Segment> exchanges;

  // For so many of the ranks.
  static SharedMemory create(std::size_t here, int world) {
    const auto segment = [&](std::size_t arena) {
      return std::make_shared<const net::Segment>(net::Segment::create(static_cast<int>(here), arena));
    };
    return {std::make_shared<const net::StatusBoard>(net::StatusBoard::create(world)),
            segment(net::Segment::kDefaultArena), segment(1), segment(Exchange::kArenaBytes)};
  }

  // Memory without a name is found through whoever holds it open.
  static SharedMemory open(const std::string& where) {
    std::string_view words = where;
    const int pid = take_number(words);
    const auto next = [&] {
      const int fd = take_number(words);
      UniqueFd own(::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
      if (!own) throw_errno(fmt::format("cannot open the memory that process {} shares", pid));
      return own;
    };
    const auto segment = [&] { return std::make_shared<const net::Segment>(net::Segment::open(next())); };
    SharedMemory memory;
    memory.board = std::make_shared<const net::StatusBoard>(net::StatusBoard::open(next()));
    memory.collectives = segment();
    memory.messages = segment();
    memory.exchanges = segment();
    return memory;
  }

  std::string where() const {
    return fmt::format("{} {} {} {} {}", ::getpid(), board->fd(), collectives->fd(), messages->fd(),
                       exchanges->fd());
  }
};

Links link(const SharedMemory& memory, Rank rank, net::TransportOptions options) {
  options.board = memory.board;
  net::TransportOptions for_messages = options;
  for_messages.survives_peers = true;
  for_messages.board = nullptr;  // nothing of a late message is a lack of progress
  // A collective of any size may run beside the computation, on cores that it does not have to itself. The
  // wait for a small one is the caller's own.
  net::TransportOptions for_exchanges = options;
  for_exchanges.own_core = static_cast<std::size_t>(memory.exchanges->world()) <= allowed_cores().size();
  return {std::make_unique<net::SegmentTransport>(memory.collectives, rank, options),
          std::make_unique<net::SegmentTransport>(memory.messages, rank, for_messages),
          std::make_unique<net::SegmentTransport>(memory.exchanges, rank, for_exchanges)};
}

std::vector<Rank> ranks_of_host(const std::vector<int>& hosts, Rank self) {
  std::vector<Rank> here;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    if (hosts[r] == hosts[static_cast<std::size_t>(to_int(self))]) here.push_back(Rank{static_cast<int>(r)});
  }
  return here;
}

Rank place_in(const std::vector<Rank>& here, Rank self) {
  return Rank{static_cast<int>(std::ranges::find(here, self) - here.begin())};
}

// The memory of the ranks `here`, of which this is one; none where it is alone among others. `refusal`: why
// this rank will have none. Where any has a reason, nobody has memory, and one reason is everybody's.
std::optional<SharedMemory> share_memory(StoreMeeting& meeting, const std::vector<Rank>& here,
                                         std::string& refusal) {
  const Rank self{meeting.rank()};
  const Rank first = here.front();
  const bool wanted = refusal.empty() && (here.size() > 1 || meeting.world() == 1);
  std::optional<SharedMemory> memory;
  const auto take = [&](const std::function<SharedMemory()>& from) {
    try {
      memory = from();
    } catch (const RunError& e) {
      refusal = e.what();
    }
  };
  if (wanted && self == first) take([&] { return SharedMemory::create(here.size(), meeting.world()); });
  const auto offers = meeting.all_gather(memory ? memory->where() : "");
  const std::string& offer = offers[static_cast<std::size_t>(to_int(first))];
  if (wanted && self != first && !offer.empty()) take([&] { return SharedMemory::open(offer); });
  for (const std::string& other : meeting.all_gather(refusal)) {
    if (refusal.empty()) refusal = other;
  }
  if (!refusal.empty()) memory.reset();
  return memory;
}

// ---- TCP ----

std::unique_ptr<net::Transport> link(StoreMeeting& meeting, const net::Secret& secret,
                                     const std::string& address, const net::TransportOptions& options) {
  // Every rank's address is of one kind: loopback on one host, else its own.
  const auto reach = net::is_loopback(address) ? net::Reach::one_host : net::Reach::hosts;
  const net::Credentials credentials{secret, {.job = {}, .wire = net::resolve_wire(std::nullopt, reach)}};
  net::Mesh mesh(Rank{meeting.rank()}, meeting.world(), credentials, address);
  std::vector<net::Endpoint> endpoints;
  for (const std::string& text :
       meeting.all_gather(fmt::format("{} {}", mesh.endpoint().host, mesh.endpoint().port))) {
    std::string_view words = text;
    net::Endpoint& e = endpoints.emplace_back();
    e.host = take_word(words);
    e.port = static_cast<std::uint16_t>(take_number(words));
  }
  return mesh.connect(endpoints, options);
}

// What the first of all offers: a secret, or a word that there is a file of it.
std::string offered_secret(Rank self, const ConnectOptions& options) {
  if (self != Rank{0}) return "";
  return options.secret_file.empty() ? to_hex(net::make_secret()) : "file";
}

// By rank, a number that those with the same first word share.
std::vector<int> number_hosts(const std::vector<std::string>& said) {
  std::map<std::string_view, int> numbers;
  std::vector<int> hosts;
  for (std::string_view text : said) {
    const auto host = take_word(text);
    hosts.push_back(numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

}  // namespace

ConnectOptions options_from_environment(std::chrono::milliseconds timeout) {
  ConnectOptions options{timeout, environment("TUTTI_TRANSPORT"), environment("TUTTI_ADDRESS"),
                         environment("MASTER_ADDR"), environment("TUTTI_SECRET_FILE")};
  if (options.transport.empty()) options.transport = "auto";
  if (options.transport != "auto" && options.transport != "shm" && options.transport != "tcp")
    throw ConfigError(fmt::format("TUTTI_TRANSPORT is {}; it can be auto, shm or tcp", options.transport));
  return options;
}

Links connect(StoreMeeting& meeting, const ConnectOptions& options) {
  const Rank self{meeting.rank()};
  const auto said = meeting.all_gather(host_identity() + ' ' + offered_secret(self, options));
  const std::vector<int> hosts = number_hosts(said);
  const std::vector<Rank> here = ranks_of_host(hosts, self);
  const bool one_host = here.size() == hosts.size();

  std::string refusal;
  if (options.transport == "tcp") refusal = "TUTTI_TRANSPORT is tcp";
  if (options.transport == "shm" && !one_host) refusal = "the ranks are on several hosts";
  const auto memory = share_memory(meeting, here, refusal);
  net::TransportOptions transport{.timeout = options.timeout};
  if (refusal.empty() && one_host) return link(*memory, self, transport);
  if (options.transport == "shm") throw ConfigError(fmt::format("TUTTI_TRANSPORT is shm, but {}", refusal));

  const net::Secret secret = options.secret_file.empty()
                                 ? parse_secret(said.front().substr(said.front().find(' ') + 1))
                                 : net::read_secret_file(options.secret_file, "TUTTI_SECRET_FILE");
  const std::string address = !options.address.empty() ? options.address
                              : one_host               ? "127.0.0.1"
                                                       : address_for_others(options.master);
  Links links;
  net::TransportOptions for_messages = transport;
  for_messages.survives_peers = true;
  if (memory) transport.board = memory->board;
  links.collectives = link(meeting, secret, address, transport);
  links.messages = link(meeting, secret, address, for_messages);
  if (!refusal.empty()) return links;
  links.hosts = hosts;
  if (memory) {
    transport.job_ranks = here;
    links.neighbours =
        std::make_unique<net::SegmentTransport>(memory->collectives, place_in(here, self), transport);
  }
  return links;
}

}  // namespace tutti::torch_backend
