// The processes of a job on this host: starts them, reads what they say, watches that they live and get on,
// and ends them all when one fails.
//
// A job on one host is one of these (launch/launcher.h). A job on several is one a host, each under an agent
// (launch/agent.h), and who has started the agents judges.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "launch/diagnose.h"
#include "launch/launcher.h"
#include "launch/spawn.h"
#include "launch/watch.h"
#include "net/segment.h"

namespace tutti::launch {

// What all processes of a job are told alike, with a secret of its own. Throws ConfigError where places on
// several hosts are to be connected without protection.
WorkerJob common_of(const JobSpec& spec);

// Where a process is, by its number.
Place place_of(const JobSpec& spec, int process);

// The address that processes at this place listen on. Throws ConfigError.
std::string address_of(const JobSpec& spec, const Place& place);

// Runs on the thread that runs `io`. Whoever destroys it has waited for every child.
class HostJob {
 public:
  // What it tells beside what the listener hears. Each may be empty.
  struct Events {
    std::function<void(const RankEnd&)> on_end;  // of a process, once it is known how
    std::function<void()> on_all_ended;
  };

  // `common` is what the processes are told alike; ranks, addresses and descriptors are filled in here.
  // `processes` are the ranks that start here, all of the job by default. spec and listener outlive it.
  HostJob(boost::asio::io_context& io, const JobSpec& spec, WorkerJob common, std::vector<Rank> processes,
          const Listener& listener, Events events);
  ~HostJob();
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;

  // Starts and begins to watch all. Throws RunError.
  void start();

  // The job has failed elsewhere: the processes notice by themselves and say so; whoever does not is stopped.
  void begin_end();
  void stop_all();

  bool stopping() const { return stopping_; }
  int alive() const { return alive_; }
  const std::vector<RankEnd>& ends() const { return ends_; }
  const std::vector<Rank>& dropped() const { return dropped_; }
  const net::StatusBoard& board() const { return board_; }
  std::uint64_t rejected_connections() const { return rejected_connections_; }

  // After all have ended: reads what is left in their pipes.
  void read_rest_of_output();

 private:
  struct Process {
    pid_t pid = -1;
    std::unique_ptr<boost::asio::posix::stream_descriptor> death = nullptr;
    Watch watch;
    std::uint64_t glances = 0;  // at which it was not stopped; counted for who shows no life of its own
  };

  int local_segment_of(const WorkerJob& job);
  void start_one(WorkerJob job, const std::vector<int>& cores, int network);
  Spawned spawn_process(const WorkerJob& job, int description, SpawnOptions options) const;
  void on_report(std::size_t i, const std::string& line);
  void await_death(std::size_t i);
  void on_death(std::size_t i);
  bool can_do_without(const RankEnd& dead) const;
  void drop(RankEnd& end);
  void has_ended(RankEnd& end);
  bool only_stopped_are_left() const;
  void watch_all();
  void watch(std::size_t i, Clock::duration passed);
  Vitals vitals_of(std::size_t i);
  void kill_all();

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  WorkerJob common_;
  const std::vector<Rank> ranks_;
  const Listener& listener_;
  const Events events_;
  boost::asio::steady_timer last_words_{io_};
  boost::asio::steady_timer glance_{io_};
  const net::StatusBoard board_ = net::StatusBoard::create(spec_.workers + spec_.servers);
  std::unique_ptr<net::Segment> segment_;
  std::map<int, net::Segment> local_segments_;  // by host
  std::vector<Process> processes_;
  std::vector<RankEnd> ends_;
  std::vector<Rank> dropped_;
  int alive_ = 0;
  std::uint64_t rejected_connections_ = 0;
  int ended_ = 0;
  bool ending_ = false;
  bool stopping_ = false;
  const WatchLimits limits_;
  Clock::time_point last_glance_ = Clock::now();
};

}  // namespace tutti::launch
