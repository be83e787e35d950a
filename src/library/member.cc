#include "library/member.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "launch/join.h"
#include "net/group.h"
#include "net/segment_transport.h"

namespace tutti::library {
namespace {

// What this process starts in turn is none of the job.
void close_on_exec(int fd) {
  if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// What a session wants of the job that it makes with the others of a meeting.
launch::JobSpec spec_of(int processes, bool one_host, const config::JoinSettings& settings) {
  launch::JobSpec spec;
  spec.workers = processes;
  spec.transport = one_host ? "shm" : "tcp";
  spec.interface = settings.interface;
  spec.ports = parse_port_range(settings.port_range);
  spec.timeout = std::chrono::minutes(10);  // as `tutti launch` has it
  spec.busy_threads = 2;                    // backward computes while the exchange waits
  return spec;
}

ConnectOptions connection_of(const launch::WorkerJob& job) {
  return {job.secret,
          job.address.empty() ? "127.0.0.1" : job.address,
          {.timeout = job.timeout, .own_core = job.own_core},
          job.wire,
          job.ports};
}

// A group that connects speaks of its own ranks; who has called for it knows those of the session, which
// `ranks` has by rank of the group.
template <typename Connect>
auto naming_ranks_of_session(std::span<const int> ranks, const Connect& connect) {
  const auto named = [&](PeerFault fault) {
    for (Rank* r : {&fault.rank, &fault.peer}) *r = Rank{ranks[static_cast<std::size_t>(to_int(*r))]};
    return fault;
  };
  try {
    return connect();
  } catch (const PeerLost& e) {
    throw PeerLost(named(e.fault));
  } catch (const Timeout& e) {
    throw Timeout(named(e.fault));
  }
}

}  // namespace

struct Member::Life {
  explicit Life(const launch::WorkerJob& job)
      : board(std::make_shared<const net::StatusBoard>(launch::open_board(job))),
        heartbeat(*board, job.rank),
        report(UniqueFd(job.report_fd), "the launcher's pipe") {}
  ~Life() {
    // A process that fails does not take leave, and is noticed by that.
    if (!meeting || std::uncaught_exceptions() > 0) return;
    try {
      meeting->finish();
    } catch (const std::exception&) {  // whoever has started us has ended before
    }
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // Of a job that was made in a meeting; nothing of one that our launcher has made.
  std::unique_ptr<rendezvous::Meeting> meeting;
  std::unique_ptr<launch::Joined> joined;
  const std::shared_ptr<const net::StatusBoard> board;
  const net::Heartbeat heartbeat;
  observe::JsonlSink report;
};

std::unique_ptr<Member> Member::alone() {
  auto transport = std::make_unique<net::SegmentTransport>(
      std::make_shared<const net::Segment>(net::Segment::create(1)), Rank{0});
  return std::make_unique<Member>(std::move(transport), ConnectOptions{});
}

std::unique_ptr<Member> Member::of_job(int job_descriptor) {
  const auto job = launch::read_job(job_descriptor);
  for (const int fd : {job.segment_fd, job.local_segment_fd, job.board_fd, job.report_fd}) close_on_exec(fd);
  return of(job, std::make_shared<Life>(job));
}

std::unique_ptr<Member> Member::of(const launch::WorkerJob& job, std::shared_ptr<Life> life) {
  auto transport = launch::connect(job, life->report);
  auto member = std::make_unique<Member>(std::move(transport), connection_of(job),
                                         InJob{.hosts = job.hosts, .board = life->board},
                                         launch::connect_neighbours(job));
  member->life_ = std::move(life);
  return member;
}

std::unique_ptr<Member> Member::of_meeting(std::unique_ptr<rendezvous::Meeting> meeting,
                                           const config::JoinSettings& settings) {
  const bool one_host = std::ranges::max(launch::hosts_of(*meeting)) == 0;
  const auto spec = spec_of(meeting->world(), one_host, settings);
  auto joined = launch::join(*meeting, meeting->rank() == Rank{0} ? &spec : nullptr);
  launch::WorkerJob job = joined->job();
  job.report_fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);  // no launcher of ours listens
  if (job.report_fd < 0) throw_errno("cannot open /dev/null");
  auto member = of(job, std::make_shared<Life>(job));
  joined->close_rendezvous();
  member->life_->joined = std::move(joined);
  member->life_->meeting = std::move(meeting);
  return member;
}

Member::Member(std::unique_ptr<net::Transport> transport, ConnectOptions connection, InJob in_job,
               std::unique_ptr<net::Transport> neighbours)
    : connection_(std::move(connection)),
      in_job_(std::move(in_job)),
      transport_(std::move(transport)),
      neighbours_(std::move(neighbours)),
      all_(std::make_unique<collectives::NativeEngine>(*transport_, std::nullopt,
                                                       collectives::Hosts{in_job_.hosts, neighbours_.get()})),
      tensors_(*all_) {
  for (int r = static_cast<int>(in_job_.ranks.size()); r < size(); ++r) in_job_.ranks.push_back(Rank{r});
  in_job_.hosts.resize(in_job_.ranks.size());
}

int Member::local_rank() const {
  const auto me = in_job_.hosts.begin() + rank();
  return static_cast<int>(std::count(in_job_.hosts.begin(), me, *me));
}

int Member::local_size() const {
  return static_cast<int>(std::ranges::count(in_job_.hosts, in_job_.hosts[static_cast<std::size_t>(rank())]));
}

std::unique_ptr<World> Member::make_world(int servers) {
  return library::make_world(*all_, transport_->peer_memory() != nullptr, servers, connection_, in_job_);
}

std::unique_ptr<Member> Member::group(std::span<const int> ranks) {
  std::vector<Rank> members;
  for (const int r : ranks) {
    if (r < 0 || r >= size())
      throw ConfigError(fmt::format("a group names rank {}; there are 0 to {}", r, size() - 1));
    if (std::ranges::count(ranks, r) > 1) throw ConfigError(fmt::format("a group names rank {} twice", r));
    members.push_back(Rank{r});
  }
  if (std::ranges::find(ranks, rank()) == ranks.end())
    throw ConfigError(fmt::format("rank {} makes a group that it is no member of", rank()));
  net::Survivors some(*transport_, std::move(members));
  collectives::NativeEngine among(some);
  InJob where{.board = in_job_.board};
  for (const int r : ranks) {
    where.hosts.push_back(in_job_.hosts[static_cast<std::size_t>(r)]);
    where.ranks.push_back(in_job_.ranks[static_cast<std::size_t>(r)]);
  }
  // Some of the processes of several hosts may be on one.
  const bool share_memory =
      transport_->peer_memory() != nullptr || (in_job_.on_several_hosts() && !where.on_several_hosts());
  auto world = library::make_world(among, share_memory, 0, connection_, where);
  auto transport = naming_ranks_of_session(ranks, [&] { return world->take_seat(among.rank()); });
  auto neighbours = naming_ranks_of_session(ranks, [&] { return world->take_seat_among_neighbours(); });
  auto member =
      std::make_unique<Member>(std::move(transport), connection_, std::move(where), std::move(neighbours));
  member->life_ = life_;
  member->world_ = std::move(world);
  return member;
}

void Member::tell(const std::exception& e) {
  auto failure = launch::failure_of(e);
  if (!life_ || !failure.fault) return;
  // The launcher knows ranks of the job. A server lives in the process of one.
  const auto in_job = [&](Rank r) { return in_job_.ranks[static_cast<std::size_t>(to_int(r) % size())]; };
  failure.fault->rank = in_job(failure.fault->rank);
  failure.fault->peer = in_job(failure.fault->peer);
  try {
    life_->report.write_line(launch::to_json(failure));
  } catch (const RunError&) {
    // The launcher has gone; whoever catches `e` knows what it says.
  }
}

}  // namespace tutti::library
