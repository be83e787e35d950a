#include "library/world.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "net/group.h"
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

std::vector<int> hosts_of(const InJob& in_job, int world) {
  std::vector<int> hosts = in_job.hosts;
  hosts.resize(static_cast<std::size_t>(world));
  return hosts;
}

// Those on the host of this process, in ascending order.
std::vector<Rank> ranks_of_host(const collectives::Collectives& all, const InJob& in_job) {
  const auto hosts = hosts_of(in_job, all.world());
  return net::ranks_by_host(hosts).at(hosts.at(static_cast<std::size_t>(to_int(all.rank()))));
}

// The memory file of the first rank of this host, which makes it, opened by all others there.
template <typename T>
std::shared_ptr<const T> shared_from_first(collectives::Collectives& all, const InJob& in_job,
                                           const std::function<T()>& make) {
  const Rank first = ranks_of_host(all, in_job).front();
  std::shared_ptr<const T> shared;
  std::string where;
  if (first == all.rank()) {
    shared = std::make_shared<const T>(make());
    where = fmt::format("{} {}", ::getpid(), shared->fd());
  }
  where = gather_text(all, where, "another world")[static_cast<std::size_t>(to_int(first))];
  if (!shared) {
    std::istringstream words(where);
    int pid = 0;
    int fd = -1;
    words >> pid >> fd;
    shared = std::make_shared<const T>(T::open(open_of_process(pid, fd)));
  }
  all.barrier("another world");  // whoever has made it keeps it open until all have it
  return shared;
}

std::shared_ptr<const net::StatusBoard> board_of_world(collectives::Collectives& all, const InJob& in_job,
                                                       int seats) {
  return shared_from_first<net::StatusBoard>(all, in_job, [&] { return net::StatusBoard::create(seats); });
}

class SharedWorld final : public World {
 public:
  SharedWorld(collectives::Collectives& all, int servers, net::TransportOptions options)
      : options_(std::move(options)) {
    const int seats = all.world() + servers;
    options_.board = board_of_world(all, {}, seats);
    segment_ = shared_from_first<net::Segment>(all, {}, [&] { return net::Segment::create(seats); });
  }

  std::unique_ptr<net::Transport> take_seat(Rank seat) override {
    return std::make_unique<net::SegmentTransport>(segment_, seat, options_);
  }

 private:
  net::TransportOptions options_;
  std::shared_ptr<const net::Segment> segment_;
};

// A world on several hosts has a board on each, where a wait sees who gets on (net/stall.h). So that it sees
// those of other hosts, too, what this process gets done in the world counts on the job's board, which agents
// carry to all hosts, and what ranks of other hosts show there counts on the world's. A process may get on in
// several worlds; that is progress in each of them.
class ProgressElsewhere {
 public:
  ProgressElsewhere(std::shared_ptr<const net::StatusBoard> world, const InJob& in_job, Rank self,
                    int workers)
      : world_(std::move(world)), job_(in_job.board), self_(self), workers_(workers) {
    for (int r = 0; r < workers; ++r) {
      ranks_.push_back(in_job.ranks.empty() ? Rank{r} : in_job.ranks[static_cast<std::size_t>(r)]);
      hosts_.push_back(in_job.hosts[static_cast<std::size_t>(r)]);
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

 private:
  // As often as agents tell.
  static constexpr auto kPeriod = std::chrono::milliseconds(100);

  void run(const std::stop_token& stop) {
    name_thread("progress");
    std::mutex mutex;
    std::condition_variable_any over;
    std::unique_lock lock(mutex);
    while (!over.wait_for(lock, stop, kPeriod, [] { return false; }) && !stop.stop_requested()) carry();
  }

  void carry() {
    std::uint64_t own = 0;
    for (int seat = 0; seat < world_->ranks(); ++seat) {
      const auto process = static_cast<std::size_t>(seat % workers_);
      if (process == index(self_)) {
        own += world_->vitals(Rank{seat}).progress;
      } else if (hosts_[process] != hosts_[index(self_)]) {
        net::Shown shown;
        shown.vitals = job_->vitals(ranks_[process]);
        world_->mirror().show(Rank{seat}, shown);
      }
    }
    if (std::exchange(seen_, own) != own) job_->advance(ranks_[index(self_)]);
  }
  static std::size_t index(Rank r) { return static_cast<std::size_t>(to_int(r)); }

  const std::shared_ptr<const net::StatusBoard> world_;
  const std::shared_ptr<const net::StatusBoard> job_;
  const Rank self_;
  const int workers_;
  std::vector<Rank> ranks_;  // in the job
  std::vector<int> hosts_;
  std::uint64_t seen_ = 0;
  std::jthread thread_;
};

class TcpWorld final : public World {
 public:
  TcpWorld(collectives::Collectives& all, int servers, const ConnectOptions& connection, const InJob& in_job)
      : options_(connection.options) {
    const int workers = all.world();
    const int seats = workers + servers;
    options_.board = board_of_world(all, in_job, seats);
    if (in_job.on_several_hosts()) {
      if (in_job.board) progress_.emplace(options_.board, in_job, all.rank(), workers);
      here_ = ranks_of_host(all, in_job);
      place_ = static_cast<int>(std::ranges::find(here_, all.rank()) - here_.begin());
      memory_ = shared_from_first<net::Segment>(
          all, in_job, [&] { return net::Segment::create(static_cast<int>(here_.size())); });
    }
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

  std::unique_ptr<net::Transport> take_seat_among_neighbours() override {
    if (here_.size() < 2) return nullptr;
    net::TransportOptions options = options_;
    options.job_ranks = here_;
    return std::make_unique<net::SegmentTransport>(memory_, Rank{place_}, options);
  }

 private:
  net::TransportOptions options_;
  std::map<int, std::unique_ptr<net::Mesh>> meshes_;  // by seat
  std::vector<net::Endpoint> endpoints_;              // likewise, of all
  // Where there are several hosts.
  std::optional<ProgressElsewhere> progress_;
  std::vector<Rank> here_;                      // the processes of this one's host
  int place_ = 0;                               // of this one among them
  std::shared_ptr<const net::Segment> memory_;  // theirs
};

}  // namespace

bool InJob::on_several_hosts() const {
  return std::ranges::adjacent_find(hosts, std::not_equal_to()) != hosts.end();
}

std::unique_ptr<World> make_world(collectives::Collectives& all, bool shares_memory, int servers,
                                  const ConnectOptions& connection, const InJob& in_job) {
  if (shares_memory) return std::make_unique<SharedWorld>(all, servers, connection.options);
  return std::make_unique<TcpWorld>(all, servers, connection, in_job);
}

}  // namespace tutti::library
