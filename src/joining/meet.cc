#include "joining/meet.h"

#include <thread>

#include "base/error.h"
#include "joining/notice.h"
#include "joining/pmi_meeting.h"
#include "joining/tcp_meeting.h"
#include "net/interface.h"
#include "net/secret_file.h"
#include "net/wire.h"

namespace tutti::joining {
namespace {

// How long one look at a place may take that may be another's by now.
constexpr auto kOneTry = std::chrono::seconds(2);

// Between two looks whether rank 0 has put up its notice: there is nothing to wait on.
constexpr auto kPause = std::chrono::milliseconds(5);

// Where rank 0 listens for the others of several hosts: at an address of its own under which they know it.
std::string address_of_rank_0(const std::string& host) {
  std::string address = net::resolve(host);
  const bool only_here = net::is_loopback(address) && !net::is_loopback(host) && host != "localhost";
  if (only_here) return net::address_of_host();
  if (!net::is_own_address(address))
    throw ConfigError(
        fmt::format("rank 0 is to be at {} ({}), which is no address of this host; say which with "
                    "--interface, or where rank 0 is with MASTER_ADDR",
                    host, address));
  return address;
}

class Joining {
 public:
  Joining(const config::Placement& p, const config::JoinSettings& settings)
      : p_(p),
        settings_(settings),
        timeout_(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(settings.timeout_s))),
        deadline_(Deadline::in(timeout_)) {}

  std::unique_ptr<rendezvous::Meeting> through_pmi() const {
    return std::make_unique<PmiMeeting>(*p_.pmi_descriptor, self(), p_.size, timeout_);
  }

  // All on this host: the secret, and where rank 0 is, by a file that only the user can read.
  std::unique_ptr<rendezvous::Meeting> by_notice(const std::filesystem::path& folder) const {
    Notice notice(folder, fmt::format("{} {}", p_.launcher, p_.job));
    if (p_.rank == 0) {
      const auto secret = net::make_secret();
      const auto address =
          settings_.interface.empty() ? "127.0.0.1" : net::address_of_interface(settings_.interface);
      auto host = listen(address, parse_port_range(settings_.port_range), secret);
      notice.put_up({host->endpoint(), secret});
      host->wait_for_all(deadline_);
      return host;
    }
    return std::make_unique<TcpGuest>(call_as_noticed(notice), self(), p_.size, timeout_);
  }

  // A secret that the user has given all of them, and a place that the launcher names.
  std::unique_ptr<rendezvous::Meeting> by_secret_file() const {
    if (p_.host.empty() || p_.port == 0)
      throw ConfigError(
          fmt::format("{} does not say where rank 0 is; set MASTER_ADDR and MASTER_PORT", p_.launcher));
    const auto secret = net::read_secret_file(settings_.secret_file, "--secret-file");
    const auto port = static_cast<std::uint16_t>(p_.port);
    if (p_.rank == 0) {
      const auto address = settings_.interface.empty() ? address_of_rank_0(p_.host)
                                                       : net::address_of_interface(settings_.interface);
      auto host = listen(address, {port, port}, secret);
      host->wait_for_all(deadline_);
      return host;
    }
    const net::Endpoint where{net::resolve(p_.host), port};
    try {
      return std::make_unique<TcpGuest>(net::dial(where, secret, self(), net::kRendezvous, deadline_), self(),
                                        p_.size, timeout_);
    } catch (const AuthError& e) {
      throw AuthError(fmt::format("{}; here it is what {} says", e.what(), settings_.secret_file));
    } catch (const Timeout&) {
      throw rank_0_missing(fmt::format("at {}:{}", where.host, where.port));
    }
  }

 private:
  Rank self() const { return Rank{p_.rank}; }

  std::unique_ptr<TcpHost> listen(const std::string& address, PortRange ports,
                                  const net::Secret& secret) const {
    return std::make_unique<TcpHost>(address, ports, secret, p_.size);
  }

  // A notice may be left by a job that was killed, and its port be another's by now: it is read again before
  // every try.
  net::Connection call_as_noticed(const Notice& notice) const {
    std::exception_ptr refusal;
    while (!deadline_.passed()) {
      if (const auto read = notice.read()) {
        try {
          return net::dial(read->where, read->secret, self(), net::kRendezvous,
                           Deadline::in(std::min<Clock::duration>(kOneTry, deadline_.left())));
        } catch (const Timeout&) {
        } catch (const AuthError&) {
          refusal = std::current_exception();
        }
      }
      std::this_thread::sleep_for(kPause);
    }
    if (refusal) std::rethrow_exception(refusal);
    throw rank_0_missing("on this host");
  }

  RunError rank_0_missing(const std::string& where) const {
    return RunError{fmt::format("rank {}: waited {:.0f} s for rank 0, which did not come {}", p_.rank,
                                settings_.timeout_s, where)};
  }

  const config::Placement& p_;
  const config::JoinSettings& settings_;
  const Clock::duration timeout_;
  const Deadline deadline_;
};

}  // namespace

std::string describe(const config::Placement& p, const config::JoinSettings& settings) {
  if (p.job_descriptor)
    return fmt::format("{}, which says everything through descriptor {}", p.launcher, *p.job_descriptor);
  const std::string how =
      p.pmi_descriptor ? "through PMI"
      : !settings.secret_file.empty()
          ? fmt::format("at {}:{}, by the secret in {}", p.host, p.port, settings.secret_file)
      : p.one_host ? "on this host, by a file that only you can read"
                   : "no way yet: they are on several hosts, and there is no TUTTI_SECRET_FILE";
  return fmt::format("{}: rank {} of {}; they meet {}{}", p.launcher, p.rank, p.size, how,
                     p.conflict.empty() ? "" : fmt::format(" ({})", p.conflict));
}

std::unique_ptr<rendezvous::Meeting> meet(const config::Placement& placement,
                                          const config::JoinSettings& settings,
                                          const std::filesystem::path& private_folder) {
  const Joining joining(placement, settings);
  if (placement.pmi_descriptor) return joining.through_pmi();
  if (!settings.secret_file.empty()) return joining.by_secret_file();
  if (placement.one_host) return joining.by_notice(private_folder);
  throw ConfigError(fmt::format(
      "{} started this process as rank {} of {} on several hosts, and they have no secret in common: name a "
      "file of mode 0600 that all can read in TUTTI_SECRET_FILE, or start them by mpirun or by srun "
      "--mpi=pmi2, which carry one",
      placement.launcher, placement.rank, placement.size));
}

}  // namespace tutti::joining
