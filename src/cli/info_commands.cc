#include <fmt/format.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/doctor_hosts.h"
#include "collectives/algorithms.h"
#include "config/environment.h"
#include "config/flags.h"
#include "data/catalogue.h"
#include "emulate/cluster.h"
#include "engines/engines.h"
#include "exchange/strategy.h"
#include "joining/meet.h"
#include "models/model_info.h"
#include "state/arithmetic.h"
#include "train/precision.h"

namespace tutti::cli {
namespace {

int models() {
  fmt::print("{:<17} {:>12} {:>10} {:>16}  {}\n", "name", "parameters", "bytes", "MFLOPs/sample",
             "what it is");
  for (const auto& m : models::all_models()) {
    fmt::print("{:<17} {:>12} {:>10} {:>16.1f}  {}\n", m.name, m.parameters,
               human_bytes(static_cast<std::uint64_t>(m.parameters) * 4), m.flops_per_sample / 1e6,
               m.summary);
  }
  return 0;
}

void line(const char* what, const std::string& text) {
  fmt::print("{:<14} {}\n", what, text);
}

std::string emulation() {
  try {
    emulate::require_means();
    return "yes: root, ip and tc are there";
  } catch (const ConfigError& e) {
    return fmt::format("no: {}", e.what());
  }
}

std::string who_has_started_us() {
  const auto settings = config::join_settings();
  const auto placement = config::placement(settings);
  return placement ? joining::describe(*placement, settings)
                   : "nobody's: `tutti train` starts processes itself";
}

int doctor() {
  line("tutti", kVersion);
  line("libtorch", state::describe_libtorch());
  line("precision", fmt::format("fp32; {}", train::describe_bf16()));
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  line("machine", fmt::format("{} cores for this process, {} of memory", allowed_cores().size(),
                              human_bytes(pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)))));
  line("transports", "inproc, shm, tcp (authenticated; --wire encrypt)");
  line("launcher", who_has_started_us());
  line("emulate", emulation());
  std::string strategies;
  for (const auto& s : exchange::all_strategies())
    strategies += fmt::format("{}{}", strategies.empty() ? "" : ", ", s.name);
  line("strategies", strategies);
  for (const auto& e : engines::engines()) {
    const std::string why_not = e.why_not == nullptr ? "" : e.why_not();
    line("engine", fmt::format("{}: {}{}", e.name, e.summary,
                               why_not.empty() ? "" : fmt::format(" (not here: {})", why_not)));
  }
  for (const auto& a : collectives::algorithms())
    line("all-reduce", fmt::format("{}: {}", a.name, a.summary));
  for (const auto& info : data::datasets()) {
    try {
      line("data",
           fmt::format("{}: {}", info.name, data::locate(info, config::data_roots()).folder.string()));
    } catch (const DataError& e) {
      line("data", e.what());
    }
  }
  return 0;
}

}  // namespace

void add_models(CLI::App& app, Action& action) {
  app.add_subcommand("models", "Networks: name, parameters, bytes, FLOPs")->callback([&action] {
    action = models;
  });
}

void add_doctor(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "doctor",
      "What this machine and build can do; with hosts, whether a job can run on them, and their links");
  const auto flags = std::make_shared<HostFlags>();
  const auto listen = std::make_shared<ListenFlags>();
  add_host_flags(*command, *flags);
  add_listen_flags(*command, *listen);
  command->callback([flags, listen, &action] {
    action = [flags, listen] {
      const auto hosts = hosts_of(*flags);
      if (!hosts.empty()) return doctor_hosts(hosts, options_of(*flags), *listen);
      if (!listen->interface.empty() || !listen->port_range.empty())
        throw ConfigError("--interface and --port-range are of a job on hosts; name them with --hosts");
      return doctor();
    };
  });
}

}  // namespace tutti::cli
