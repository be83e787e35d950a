#include "launch/job.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/version.h"
#include "net/group.h"
#include "net/segment_transport.h"
#include "net/stall.h"
#include "net/tcp_transport.h"
#include "rendezvous/rendezvous.h"

namespace tutti::launch {
namespace {

net::TransportOptions options_of(const WorkerJob& job) {
  return {job.timeout, job.own_core, job.survives_workers,
          std::make_shared<const net::StatusBoard>(open_board(job))};
}

std::unique_ptr<net::Transport> take_seat(int fd, Rank rank, const net::TransportOptions& options) {
  auto segment = std::make_shared<const net::Segment>(net::Segment::open(duplicate(fd)));
  return std::make_unique<net::SegmentTransport>(std::move(segment), rank, options);
}

}  // namespace

nlohmann::json bytes_to_json(std::span<const std::byte> bytes) {
  auto array = nlohmann::json::array();
  for (const std::byte b : bytes) array.push_back(std::to_integer<int>(b));
  return array;
}

std::optional<Digest> digest_from_json(const nlohmann::json& json) {
  const auto bytes = json.get<std::vector<int>>();
  Digest digest{};
  if (bytes.size() != digest.size()) return std::nullopt;
  std::ranges::transform(bytes, digest.begin(), [](int b) { return static_cast<std::byte>(b); });
  return digest;
}

UniqueFd duplicate(int fd) {
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) throw_errno("cannot use an inherited descriptor");
  return own;
}

UniqueFd write_job(const WorkerJob& job) {
  const nlohmann::json json = {{"rank", to_int(job.rank)},
                               {"world", job.world},
                               {"workers", job.workers},
                               {"hosts", job.hosts},
                               {"task", job.task},
                               {"payload", job.payload},
                               {"secret", bytes_to_json(job.secret)},
                               {"digest", bytes_to_json(job.digest ? *job.digest : digest_of(job))},
                               {"transport", job.transport},
                               {"wire", static_cast<std::uint32_t>(job.wire)},
                               {"segment_fd", job.segment_fd},
                               {"local_segment_fd", job.local_segment_fd},
                               {"rendezvous_host", job.rendezvous.host},
                               {"rendezvous_port", job.rendezvous.port},
                               {"address", job.address},
                               {"ports", text_of(job.ports)},
                               {"board_fd", job.board_fd},
                               {"report_fd", job.report_fd},
                               {"timeout_ms", job.timeout.count()},
                               {"survives_workers", job.survives_workers},
                               {"shows_life", job.shows_life},
                               {"own_core", job.own_core}};
  const std::string text = json.dump();
  UniqueFd fd = make_memory_file("tutti-job", 0);
  write_all(fd.get(), std::as_bytes(std::span(text)), "cannot write the job description");
  return fd;
}

// What differs by rank or host cannot be in it: numbers, descriptors, addresses. The payload has the
// settings, and how connections are protected the handshake compares by itself (net::Credentials).
Digest digest_of(const WorkerJob& job) {
  const nlohmann::json alike = {
      {"version", kVersion}, {"world", job.world}, {"task", job.task}, {"payload", job.payload}};
  const std::string text = alike.dump();
  return sha256(std::as_bytes(std::span(text)));
}

net::Credentials credentials_of(const WorkerJob& job) {
  return {job.secret, {.job = job.digest ? *job.digest : digest_of(job), .wire = job.wire}};
}

WorkerJob read_job(int fd) {
  try {
    if (fd <= STDERR_FILENO) throw ConfigError("it is one of the standard ones");
    const UniqueFd owned(fd);
    const auto size = ::lseek(fd, 0, SEEK_END);
    const Mapping mapping(fd, size > 0 ? static_cast<std::size_t>(size) : 0, Mapping::Access::read);
    const auto bytes = mapping.bytes();
    const auto json = nlohmann::json::parse(reinterpret_cast<const char*>(bytes.data()),
                                            reinterpret_cast<const char*>(bytes.data()) + bytes.size());
    WorkerJob job;
    job.rank = Rank{json.at("rank").get<int>()};
    job.world = json.at("world");
    job.workers = json.at("workers");
    job.hosts = json.at("hosts").get<std::vector<int>>();
    job.task = json.at("task");
    job.payload = json.at("payload");
    const auto secret = digest_from_json(json.at("secret"));
    const auto digest = digest_from_json(json.at("digest"));
    if (!secret || !digest) throw ConfigError("the job description has no secret, or no digest");
    job.secret = *secret;
    job.digest = digest;
    job.transport = json.at("transport");
    job.wire = static_cast<net::Wire>(json.at("wire").get<std::uint32_t>());
    job.segment_fd = json.at("segment_fd");
    job.local_segment_fd = json.at("local_segment_fd");
    job.rendezvous = {json.at("rendezvous_host"), json.at("rendezvous_port")};
    job.address = json.at("address");
    job.ports = parse_port_range(json.at("ports"));
    job.board_fd = json.at("board_fd");
    job.report_fd = json.at("report_fd");
    job.timeout = std::chrono::milliseconds(json.at("timeout_ms").get<std::int64_t>());
    job.survives_workers = json.at("survives_workers");
    job.shows_life = json.at("shows_life");
    job.own_core = json.at("own_core");
    return job;
  } catch (const std::exception& e) {
    throw ConfigError(fmt::format(
        "descriptor {} holds no job description; workers are started by `tutti train` ({})", fd, e.what()));
  }
}

net::StatusBoard open_board(const WorkerJob& job) {
  auto board = net::StatusBoard::open(duplicate(job.board_fd));
  TUTTI_CHECK(board.ranks() == job.world, "a board for {} ranks in a job of {}", board.ranks(), job.world);
  return board;
}

std::unique_ptr<net::Transport> connect(const WorkerJob& job, observe::JsonlSink& report) {
  const net::TransportOptions options = options_of(job);
  options.board->say(job.rank, "joining the job");
  if (job.transport == "shm") {
    return take_seat(job.segment_fd, job.rank, options);
  }
  const net::Waiting waiting(*options.board, job.rank);
  if (job.connector) return (*job.connector)(job.rank, options);
  const auto credentials = credentials_of(job);
  net::Mesh mesh(job.rank, job.world, credentials, job.address, job.ports);
  const auto peers =
      rendezvous::join(job.rendezvous, credentials, job.rank, job.world, mesh.endpoint(),
                       Deadline::in(std::max<Clock::duration>(job.timeout, net::kTimeToStart)));
  std::uint64_t rejected_connections = 0;
  auto transport = mesh.connect(peers, options, &rejected_connections);
  if (rejected_connections > 0) report.write_line({{kRejectedConnections, rejected_connections}});
  return transport;
}

std::vector<Rank> workers_of_host(const WorkerJob& job) {
  const int host = job.hosts.at(static_cast<std::size_t>(to_int(job.rank)));
  const auto workers = static_cast<std::size_t>(job.workers);
  TUTTI_CHECK(workers <= job.hosts.size(), "hosts of {} ranks, {} workers", job.hosts.size(), workers);
  // A host may have servers alone.
  return net::ranks_by_host(std::span(job.hosts).first(workers))[host];
}

std::unique_ptr<net::Transport> connect_neighbours(const WorkerJob& job) {
  if (job.local_segment_fd < 0) return nullptr;
  net::TransportOptions options = options_of(job);
  options.job_ranks = workers_of_host(job);
  const auto place = std::ranges::find(options.job_ranks, job.rank) - options.job_ranks.begin();
  return take_seat(job.local_segment_fd, Rank{static_cast<int>(place)}, options);
}

Failure failure_of(const std::exception& e) {
  // The first line: libtorch appends a backtrace.
  const std::string text = e.what();
  Failure f{Failure::Kind::run, text.substr(0, text.find('\n')), std::nullopt};
  if (dynamic_cast<const UsageError*>(&e) != nullptr) f.kind = Failure::Kind::usage;
  if (dynamic_cast<const NonFinite*>(&e) != nullptr) f.kind = Failure::Kind::nonfinite;
  if (const auto* lost = dynamic_cast<const PeerLost*>(&e))
    f = {Failure::Kind::peer_lost, e.what(), lost->fault};
  if (const auto* timeout = dynamic_cast<const Timeout*>(&e))
    f = {Failure::Kind::timeout, e.what(), timeout->fault};
  return f;
}

int exit_code_of(const Failure& failure) {
  return failure.kind == Failure::Kind::usage ? 2 : 1;
}

nlohmann::json to_json(const Failure& f) {
  nlohmann::json json = {{"kind", static_cast<int>(f.kind)}, {"what", f.what}};
  if (f.fault) {
    json["fault"] = {{"rank", to_int(f.fault->rank)},
                     {"peer", to_int(f.fault->peer)},
                     {"operation", f.fault->operation},
                     {"waited_ms", f.fault->waited.count()},
                     {"address", f.fault->address}};
  }
  return {{"failure", json}};
}

Failure failure_from_json(const nlohmann::json& json) {
  const auto& j = json.at("failure");
  Failure f{static_cast<Failure::Kind>(j.at("kind").get<int>()), j.at("what"), std::nullopt};
  if (j.contains("fault")) {
    const auto& p = j["fault"];
    f.fault =
        PeerFault{Rank{p.at("rank").get<int>()}, Rank{p.at("peer").get<int>()}, p.at("operation"),
                  std::chrono::milliseconds(p.at("waited_ms").get<std::int64_t>()), p.value("address", "")};
  }
  return f;
}

}  // namespace tutti::launch
