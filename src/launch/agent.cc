#include "launch/agent.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "launch/host_job.h"
#include "launch/line_writer.h"
#include "launch/output_reader.h"

namespace tutti::launch {

namespace asio = boost::asio;
using boost::system::error_code;
using nlohmann::json;

namespace {

// A job's description has all its settings in it, and what ranks of all hosts show is one line.
constexpr std::size_t kLongestFromLauncher = 64 << 20;

// As much of what ranks print may wait for a slow link; at 10 Mbit/s that is three seconds of it, in which
// the launcher hears nothing else.
constexpr std::size_t kMostOutputWaiting = 4 << 20;

// How long the last words to the launcher may take to leave.
constexpr auto kLastLines = std::chrono::seconds(5);

constexpr std::array kRequests = {net::Request::stop, net::Request::save, net::Request::end};

class Agent {
 public:
  Agent(const std::string& program, const Localise& localise) : program_(program), localise_(localise) {}

  int run(const AgentHello& hello) {
    launcher_->write(to_json(hello));
    input_ = OutputReader::start(
        io_, duplicate(STDIN_FILENO), [this](const std::string& line) { on_line(line); },
        kLongestFromLauncher, [this] { launcher_is_gone(); });
    on_time();
    io_.run();
    if (processes_) processes_->read_rest_of_output();
    for (auto& [rank, lines] : dropped_) tell_dropped(Rank{rank}, lines);
    launcher_->write(
        {{"done", {{"rejected_connections", processes_ ? processes_->rejected_connections() : 0}}}});
    const auto until = Clock::now() + kLastLines;
    io_.restart();
    while (!launcher_->idle() && Clock::now() < until) io_.run_one_for(kBoardPeriod);
    const int code = heard_to_the_end_ ? 0 : 1;
    if (preparing_) std::_Exit(code);  // what it reads is for nobody any more
    return code;
  }

 private:
  // What a rank has printed, as long as there is room for it.
  void tell_output(Rank rank, bool is_error, const std::string& line) {
    auto& dropped = dropped_[to_int(rank)];
    if (launcher_->waiting_bytes() > kMostOutputWaiting) {
      ++dropped;
      return;
    }
    tell_dropped(rank, dropped);
    launcher_->write({{"output", {to_int(rank), is_error, line}}});
  }
  void tell_dropped(Rank rank, std::uint64_t& lines) {
    if (lines == 0) return;
    const auto text =
        fmt::format("({} lines that this rank printed were dropped: the link is too slow for them)",
                    std::exchange(lines, 0));
    launcher_->write({{"output", {to_int(rank), true, text}}});
  }

  void tell_time(const json& asked) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    launcher_->write({{"clock", {asked, std::chrono::duration<double>(now).count()}}});
  }

  void on_line(const std::string& line) {
    silent_ = {};
    try {
      const auto message = json::parse(line);
      if (message.contains("clock")) return tell_time(message["clock"]);
      if (message.contains("job")) return prepare(agent_job_from_json(message));
      if (message.contains("go")) return start();
      if (processes_) return follow(message);
      if (message.contains("end") || message.contains("stop")) finish();
    } catch (const std::exception& e) {
      fail(e);
    }
  }

  // Reading data may take one host minutes longer than another, and ranks wait for each other: none starts
  // before all hosts are ready. A thread of its own does that, while this one hears what the launcher says.
  void prepare(AgentJob job) {
    if (preparation_.joinable()) throw ConfigError("an agent has one job");
    job_ = std::move(job);
    JobSpec& spec = job_.spec;
    if (::chdir(job_.folder.c_str()) != 0) {
      throw ConfigError(fmt::format("there is no folder {}, in which the job was started", job_.folder));
    }
    for (const std::string& file : job_.shared_files) require_shared(file);
    spec.program = program_;
    for (const int host : job_.hosts) spec.places.push_back({.address = job_.address, .host = host});
    preparing_ = true;
    preparation_ = std::thread([this] {
      std::exception_ptr failure;
      try {
        if (localise_) localise_(job_.spec, static_cast<int>(job_.ranks.size()));
      } catch (...) {
        failure = std::current_exception();
      }
      asio::post(io_, [this, failure] { on_prepared(failure); });
    });
  }

  void on_prepared(const std::exception_ptr& failure) {
    preparing_ = false;
    preparation_.join();
    try {
      if (failure) std::rethrow_exception(failure);
      common_ = common_of(job_.spec);
    } catch (const std::exception& e) {
      return fail(e);
    }
    common_->secret = job_.secret;
    common_->digest = job_.digest;
    common_->rendezvous = job_.rendezvous;
    launcher_->write({{"ready", true}});
  }

  void start() {
    if (!common_) throw ConfigError("an agent starts what it has prepared, and that is nothing");
    if (processes_) throw ConfigError("an agent starts its job once");
    processes_.emplace(io_, job_.spec, *common_, job_.ranks, listener_,
                       HostJob::Events{.on_end = [this](const RankEnd& e) { launcher_->write(to_json(e)); },
                                       .on_all_ended = [this] { finish(); }});
    processes_->board().mirror().span_hosts();
    processes_->start();
  }

  void require_shared(const std::filesystem::path& file) const {
    std::error_code none;
    if (std::filesystem::exists(file, none) && read_file(file) == job_.shared_text) return;
    throw ConfigError(
        fmt::format("{} is not the run folder of the launcher's host; with --resume or --restarts "
                    "every rank reads checkpoints there: have one that all hosts share",
                    file.parent_path().string()));
  }

  void follow(const json& message) {
    const auto& board = processes_->board();
    const auto requests = board.requests();
    const auto word = [&](const char* name) {
      const auto& w = message.at(name);
      return std::pair{static_cast<net::Request>(w.at(0).get<int>()), w.at(1).get<std::int64_t>()};
    };
    if (message.contains("board")) {
      for (const auto& entry : message["board"]) {
        const auto [rank, shown] = shown_from_json(entry);
        if (to_int(rank) >= 0 && to_int(rank) < board.ranks() && !is_here(rank))
          board.mirror().show(rank, shown);
      }
    } else if (message.contains("ask")) {
      requests.ask(static_cast<net::Request>(message["ask"].get<int>()));
    } else if (message.contains("decided")) {
      const auto [request, step] = word("decided");
      requests.decide(request, step);
      told_[static_cast<std::size_t>(request)] = step;
      launcher_->write({{"told", message["decided"]}});
    } else if (message.contains("known")) {
      const auto [request, step] = word("known");
      requests.make_known(request, step);
    } else if (message.contains("end")) {
      processes_->begin_end();
    } else if (message.contains("stop")) {
      processes_->stop_all();
    }
  }

  // Ten times a second.
  void on_time() {
    silent_ += kBoardPeriod;
    if (silent_ > kLauncherSilence) launcher_is_gone();
    if (finished_) return;
    auto entries = json::array();
    if (processes_) {
      for (const Rank rank : shown_here())
        entries.push_back(to_json(rank, processes_->board().mirror().shown(rank)));
      tell_decisions();
    }
    launcher_->write({{"board", entries}});
    timer_.expires_after(kBoardPeriod);
    timer_.async_wait([this](error_code e) {
      if (!e) on_time();
    });
  }

  // Colocated servers show themselves, too.
  std::vector<Rank> shown_here() const {
    std::vector<Rank> ranks = job_.ranks;
    if (job_.spec.colocate) {
      for (const Rank r : job_.ranks) ranks.push_back(Rank{to_int(r) + job_.spec.workers});
    }
    return ranks;
  }
  bool is_here(Rank rank) const {
    const auto ranks = shown_here();
    return std::ranges::find(ranks, rank) != ranks.end();
  }

  // What a rank here has decided, and nobody has told us, goes to the other hosts.
  void tell_decisions() {
    for (const auto request : kRequests) {
      const auto i = static_cast<std::size_t>(request);
      const auto step = processes_->board().requests().decided(request);
      if (!step || told_[i] == step) continue;
      told_[i] = step;
      launcher_->write({{"decided", {static_cast<int>(request), *step}}});
    }
  }

  void launcher_is_gone() {
    if (!std::exchange(heard_to_the_end_, false)) return;
    // One that was only suspended hears this when it goes on.
    const RunError why("its agent heard nothing of the launcher, and has ended the ranks there");
    launcher_->write({{"failed", to_json(failure_of(why))}});
    if (processes_ && processes_->alive() > 0) return processes_->stop_all();
    finish();
  }

  void fail(const std::exception& e) {
    launcher_->write({{"failed", to_json(failure_of(e))}});
    if (processes_ && processes_->alive() > 0) return processes_->stop_all();
    finish();
  }

  void finish() {
    finished_ = true;
    timer_.cancel();
    if (input_) input_->close();
    io_.stop();
  }

  const std::string& program_;
  const Localise& localise_;
  asio::io_context io_;
  asio::steady_timer timer_{io_};
  const std::shared_ptr<LineWriter> launcher_ = LineWriter::to(io_, duplicate(STDOUT_FILENO));
  std::shared_ptr<OutputReader> input_;
  const Listener listener_{
      [this](Rank rank, bool is_error, const std::string& line) { tell_output(rank, is_error, line); },
      [this](Rank rank, const json& line) {
        launcher_->write({{"report", {to_int(rank), line}}});
      }};
  AgentJob job_;
  std::thread preparation_;  // changes job_.spec meanwhile
  bool preparing_ = false;
  std::optional<WorkerJob> common_;       // of the job, when this host is ready for it
  std::map<int, std::uint64_t> dropped_;  // lines, by rank, that were not told yet
  std::optional<HostJob> processes_;
  std::array<std::optional<std::int64_t>, kRequests.size()> told_{};  // the last of each request, either way
  Clock::duration silent_{};
  bool finished_ = false;
  bool heard_to_the_end_ = true;
};

}  // namespace

int run_agent(const AgentHello& hello, const std::string& program, const Localise& localise) {
  return Agent(program, localise).run(hello);
}

}  // namespace tutti::launch
