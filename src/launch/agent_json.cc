// What agents and launchers tell each other, as JSON.
#include <algorithm>

#include "base/error.h"
#include "launch/agent.h"

namespace tutti::launch {
namespace {

using nlohmann::json;

std::int64_t milliseconds(Clock::duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace

json to_json(const JobSpec& s) {
  return {{"command", s.command},
          {"environment", s.environment},
          {"workers", s.workers},
          {"servers", s.servers},
          {"colocate", s.colocate},
          {"local_memory", s.local_memory},
          {"task", s.task},
          {"payload", s.payload},
          {"transport", s.transport},
          {"wire", s.wire},
          {"interface", s.interface},
          {"ports", text_of(s.ports)},
          {"timeout_ms", milliseconds(s.timeout)},
          {"heartbeat_timeout_ms", milliseconds(s.heartbeat_timeout)},
          {"shows_life", s.shows_life},
          {"busy_threads", s.busy_threads}};
}

JobSpec spec_from_json(const json& j) {
  JobSpec s;
  j.at("command").get_to(s.command);
  j.at("environment").get_to(s.environment);
  j.at("workers").get_to(s.workers);
  j.at("servers").get_to(s.servers);
  j.at("colocate").get_to(s.colocate);
  j.at("local_memory").get_to(s.local_memory);
  j.at("task").get_to(s.task);
  s.payload = j.at("payload");
  j.at("transport").get_to(s.transport);
  j.at("wire").get_to(s.wire);
  j.at("interface").get_to(s.interface);
  s.ports = parse_port_range(j.at("ports"));
  s.timeout = std::chrono::milliseconds(j.at("timeout_ms").get<std::int64_t>());
  s.heartbeat_timeout = std::chrono::milliseconds(j.at("heartbeat_timeout_ms").get<std::int64_t>());
  j.at("shows_life").get_to(s.shows_life);
  j.at("busy_threads").get_to(s.busy_threads);
  return s;
}

json to_json(const AgentHello& hello) {
  return {{"agent",
           {{"version", hello.version},
            {"address", hello.address},
            {"caller", hello.caller},
            {"cores", hello.cores},
            {"memory_bytes", hello.memory_bytes}}}};
}

AgentHello hello_from_json(const json& j) {
  const auto& a = j.at("agent");
  return {a.at("version"), a.at("address"), a.at("caller"), a.at("cores"), a.at("memory_bytes")};
}

json to_json(const AgentJob& job) {
  std::vector<int> ranks;
  for (const Rank r : job.ranks) ranks.push_back(to_int(r));
  return {{"job",
           {{"spec", to_json(job.spec)},
            {"ranks", ranks},
            {"hosts", job.hosts},
            {"secret", bytes_to_json(job.secret)},
            {"digest", bytes_to_json(job.digest)},
            {"rendezvous_host", job.rendezvous.host},
            {"rendezvous_port", job.rendezvous.port},
            {"address", job.address},
            {"folder", job.folder},
            {"shared_files", job.shared_files},
            {"shared_text", job.shared_text}}}};
}

AgentJob agent_job_from_json(const json& j) {
  const auto& a = j.at("job");
  AgentJob job;
  job.spec = spec_from_json(a.at("spec"));
  for (const int r : a.at("ranks").get<std::vector<int>>()) {
    if (r < 0 || r >= job.spec.workers + job.spec.servers)
      throw ConfigError(
          fmt::format("a job of {} ranks has no rank {}", job.spec.workers + job.spec.servers, r));
    job.ranks.push_back(Rank{r});
  }
  a.at("hosts").get_to(job.hosts);
  const auto secret = digest_from_json(a.at("secret"));
  const auto digest = digest_from_json(a.at("digest"));
  const int world = job.spec.workers + job.spec.servers;
  if (!secret || !digest || job.hosts.size() != static_cast<std::size_t>(world))
    throw ConfigError("the job has no secret, no digest, or not a host for each rank");
  job.secret = *secret;
  job.digest = *digest;
  job.rendezvous = {a.at("rendezvous_host"), a.at("rendezvous_port")};
  a.at("address").get_to(job.address);
  a.at("folder").get_to(job.folder);
  a.at("shared_files").get_to(job.shared_files);
  a.at("shared_text").get_to(job.shared_text);
  return job;
}

json to_json(const RankEnd& end) {
  json j = {{"rank", to_int(end.rank)}, {"server", end.server},       {"running", end.running},
            {"stopped", end.stopped},   {"exit_code", end.exit_code}, {"signal", end.signal},
            {"found", end.found}};
  if (end.failure) j.update(to_json(*end.failure));
  return {{"ended", j}};
}

RankEnd rank_end_from_json(const json& j) {
  const auto& e = j.at("ended");
  RankEnd end{.rank = Rank{e.at("rank").get<int>()},
              .server = e.at("server"),
              .running = e.at("running"),
              .stopped = e.at("stopped"),
              .exit_code = e.at("exit_code"),
              .signal = e.at("signal"),
              .found = e.at("found")};
  if (e.contains("failure")) end.failure = failure_from_json(e);
  return end;
}

json to_json(Rank rank, const net::Shown& s) {
  return json::array({to_int(rank), s.vitals.beats, s.vitals.progress, s.vitals.waiting, s.vitals.signed_off,
                      s.left, s.part_written, s.part_failed, s.doing});
}

std::pair<Rank, net::Shown> shown_from_json(const json& j) {
  return {Rank{j.at(0).get<int>()},
          {.vitals = {.beats = j.at(1), .progress = j.at(2), .waiting = j.at(3), .signed_off = j.at(4)},
           .left = j.at(5),
           .part_written = j.at(6),
           .part_failed = j.at(7),
           .doing = j.at(8)}};
}

}  // namespace tutti::launch
