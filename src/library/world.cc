#include "library/world.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include "base/error.h"
#include "net/segment_transport.h"
#include "net/tcp_transport.h"

namespace tutti::library {
namespace {

// Memory without a name is found through whoever holds it open.
UniqueFd open_of_process(int pid, int fd) {
  UniqueFd own(::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
  if (!own) throw_errno(fmt::format("cannot open the memory that process {} shares", pid));
  return own;
}

// The memory file of rank 0, opened by all. `make` makes it there, `open` opens it elsewhere.
template <typename T>
std::shared_ptr<const T> shared_from_first(collectives::Collectives& all, const std::function<T()>& make) {
  std::shared_ptr<const T> shared;
  std::string where;
  if (all.rank() == Rank{0}) {
    shared = std::make_shared<const T>(make());
    where = fmt::format("{} {}", ::getpid(), shared->fd());
  }
  where = gather_text(all, where, "another world").front();
  if (!shared) {
    std::istringstream words(where);
    int pid = 0;
    int fd = -1;
    words >> pid >> fd;
    shared = std::make_shared<const T>(T::open(open_of_process(pid, fd)));
  }
  all.barrier("another world");  // rank 0 keeps it open until all have it
  return shared;
}

std::shared_ptr<const net::StatusBoard> board_of_world(collectives::Collectives& all, int seats) {
  return shared_from_first<net::StatusBoard>(all, [&] { return net::StatusBoard::create(seats); });
}

class SharedWorld final : public World {
 public:
  SharedWorld(collectives::Collectives& all, int servers, net::TransportOptions options)
      : options_(std::move(options)) {
    const int seats = all.world() + servers;
    options_.board = board_of_world(all, seats);
    segment_ = shared_from_first<net::Segment>(all, [&] { return net::Segment::create(seats); });
  }

  std::unique_ptr<net::Transport> take_seat(Rank seat) override {
    return std::make_unique<net::SegmentTransport>(segment_, seat, options_);
  }

 private:
  net::TransportOptions options_;
  std::shared_ptr<const net::Segment> segment_;
};

class TcpWorld final : public World {
 public:
  TcpWorld(collectives::Collectives& all, int servers, const ConnectOptions& connection)
      : options_(connection.options) {
    const int workers = all.world();
    const int seats = workers + servers;
    options_.board = board_of_world(all, seats);
    for (int seat = to_int(all.rank()); seat < seats; seat += workers) {
      const net::Credentials credentials(connection.secret, {.wire = connection.wire});
      meshes_.emplace(seat, std::make_unique<net::Mesh>(Rank{seat}, seats, credentials, connection.address,
                                                        connection.ports));
    }
    std::string mine;
    for (const auto& [seat, mesh] : meshes_) {
      mine += fmt::format("{} {} {}\n", seat, mesh->endpoint().host, mesh->endpoint().port);
    }
    endpoints_.resize(static_cast<std::size_t>(seats));
    for (const std::string& text : gather_text(all, mine, "another world")) {
      std::istringstream lines(text);
      for (std::size_t seat = 0; lines >> seat;) {
        net::Endpoint& e = endpoints_.at(seat);
        lines >> e.host >> e.port;
      }
    }
  }

  std::unique_ptr<net::Transport> take_seat(Rank seat) override {
    return meshes_.at(to_int(seat))->connect(endpoints_, options_);
  }

 private:
  net::TransportOptions options_;
  std::map<int, std::unique_ptr<net::Mesh>> meshes_;  // by seat
  std::vector<net::Endpoint> endpoints_;              // likewise, of all
};

}  // namespace

std::unique_ptr<World> make_world(collectives::Collectives& all, bool shares_memory, int servers,
                                  const ConnectOptions& connection) {
  if (shares_memory) return std::make_unique<SharedWorld>(all, servers, connection.options);
  return std::make_unique<TcpWorld>(all, servers, connection);
}

}  // namespace tutti::library
