#include "config/launchers.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "config/cluster.h"
#include "config/node_list.h"

namespace tutti::config {
namespace {

template <typename T = int>
std::optional<T> number(const Variables& variables, std::string_view name) {
  const auto text = variables(std::string(name));
  if (!text) return std::nullopt;
  T value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0)
    throw ConfigError(fmt::format("{} is '{}', which is no number", name, *text));
  return value;
}

template <typename T>
T needed(const std::optional<T>& value, std::string_view name, std::string_view because) {
  if (!value) throw ConfigError(fmt::format("{} is set and {} is not; a launcher sets both", because, name));
  return *value;
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Rank and size by the launcher's two variables; nothing if neither is set.
std::optional<Placement> numbered(const Launcher& self, const Variables& variables) {
  const auto rank = number(variables, self.rank);
  const auto size = number(variables, self.size);
  if (!rank && !size) return std::nullopt;
  Placement p;
  p.launcher = self.name;
  p.mpi_library = self.mpi_library;
  p.rank = needed(rank, self.rank, self.size);
  p.size = needed(size, self.size, self.rank);
  if (p.rank >= p.size)
    throw ConfigError(
        fmt::format("{} is {} and {} is {}: ranks count from 0", self.rank, p.rank, self.size, p.size));
  return p;
}

// What people say beside a launcher that names no place itself.
void read_master(Placement& p, const Variables& variables) {
  if (const auto host = variables("MASTER_ADDR")) p.host = *host;
  if (const auto port = number(variables, "MASTER_PORT")) p.port = *port;
}

std::optional<Placement> read_own(const Launcher& self, const Variables& variables, const JoinSettings&) {
  const auto text = variables(std::string(self.rank));
  if (!text) return std::nullopt;
  Placement p;
  p.launcher = self.name;
  int fd = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), fd);
  if (error != std::errc() || end != text->data() + text->size())
    throw ConfigError(
        fmt::format("{} is '{}', which is no descriptor; `tutti launch` sets it", self.rank, *text));
  p.job_descriptor = fd;
  return p;
}

std::optional<Placement> from_cluster(const Launcher& self, const std::string& text,
                                      const JoinSettings& settings, const std::string& where) {
  const Cluster cluster = parse_cluster(text, settings.task, where);
  Placement p;
  p.launcher = self.name;
  p.rank = cluster.rank;
  p.size = static_cast<int>(cluster.tasks.size());
  p.servers = cluster.servers;
  p.host = cluster.tasks.front().host;
  p.port = cluster.tasks.front().port;
  p.one_host = true;
  for (const auto& task : cluster.tasks) p.one_host = p.one_host && is_loopback_name(task.host);
  p.job = fmt::format("{}:{}", p.host, p.port);
  return p;
}

std::optional<Placement> read_cluster_file(const Launcher& self, const Variables&,
                                           const JoinSettings& settings) {
  if (settings.cluster.empty()) return std::nullopt;
  const std::string where = fmt::format("--cluster {}", settings.cluster);
  std::ifstream file(settings.cluster);
  if (!file) throw ConfigError(fmt::format("{}: cannot be read", where));
  std::ostringstream text;
  text << file.rdbuf();
  return from_cluster(self, text.str(), settings, where);
}

std::optional<Placement> read_tf_config(const Launcher& self, const Variables& variables,
                                        const JoinSettings& settings) {
  const auto text = variables(std::string(self.rank));
  if (!text) return std::nullopt;
  return from_cluster(self, *text, settings, std::string(self.rank));
}

std::optional<Placement> read_torchrun(const Launcher& self, const Variables& variables,
                                       const JoinSettings&) {
  auto p = numbered(self, variables);
  if (!p) return std::nullopt;
  p->host = needed(variables("MASTER_ADDR"), "MASTER_ADDR", self.rank);
  p->port = needed(number(variables, "MASTER_PORT"), "MASTER_PORT", self.rank);
  p->job = fmt::format("{}:{}", p->host, p->port);
  // There its agent listens for as long as the job runs.
  if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True") ++p->port;
  if (p->port < 1 || p->port > 65535)
    throw ConfigError(fmt::format("MASTER_PORT is {}, which leads to no port", *variables("MASTER_PORT")));
  const auto local_rank = number(variables, "LOCAL_RANK");
  const auto local_size = number(variables, "LOCAL_WORLD_SIZE");
  if (local_rank && local_size && *local_rank >= *local_size)
    throw ConfigError(fmt::format("LOCAL_RANK is {} and LOCAL_WORLD_SIZE is {}: ranks count from 0",
                                  *local_rank, *local_size));
  p->one_host = local_size ? *local_size == p->size : is_loopback_name(p->host);
  return p;
}

std::optional<Placement> read_open_mpi(const Launcher& self, const Variables& variables,
                                       const JoinSettings&) {
  auto p = numbered(self, variables);
  if (!p) return std::nullopt;
  p->one_host = number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE") == p->size;
  p->job = variables("PMIX_NAMESPACE").value_or("");
  read_master(*p, variables);
  return p;
}

struct SlurmStep {
  std::uint32_t number = 0;
  std::string_view variable;  // that has said it
};

// SLURM sets its variables in the script of a batch job, too, and in the shell of an interactive one; those
// are no tasks of a step that srun has started. Their steps, where they are named at all, have numbers that
// are kept for them, the highest. A process that is told the nodes of its step is in one, whichever it is.
std::optional<SlurmStep> slurm_step(const Variables& variables) {
  constexpr std::uint32_t kFirstReserved = 0xfffffff0;
  for (const std::string_view name : {"SLURM_STEP_ID", "SLURM_STEPID"}) {
    const auto step = number<std::uint32_t>(variables, name);
    if (step) return *step < kFirstReserved ? std::optional(SlurmStep{*step, name}) : std::nullopt;
  }
  constexpr std::string_view kNodes = "SLURM_STEP_NODELIST";
  return variables(std::string(kNodes)) ? std::optional(SlurmStep{0, kNodes}) : std::nullopt;
}

// Plugins of srun set PMI's rank for libraries of MPI: that of the task. An mpiexec that srun has started on
// each node sets others.
bool pmi_repeats_slurm(const Launcher& pmi, const Variables& variables) {
  const auto tasks = number(variables, "SLURM_STEP_NUM_TASKS");
  return slurm_step(variables) && number(variables, pmi.rank) == number(variables, "SLURM_PROCID") &&
         (!tasks || number(variables, pmi.size) == tasks);
}

std::optional<Placement> read_pmi(const Launcher& self, const Variables& variables, const JoinSettings&) {
  const auto descriptor = number(variables, "PMI_FD");
  if (!descriptor && pmi_repeats_slurm(self, variables)) return std::nullopt;  // whose variables say more
  auto p = numbered(self, variables);
  if (!p && descriptor)
    throw ConfigError(fmt::format("PMI_FD is set and {} is not; a launcher sets both", self.rank));
  if (!p) return std::nullopt;
  p->pmi_descriptor = descriptor;
  if (descriptor) return p;
  // What it speaks, PMI-2 perhaps, is none of ours. Its ranks count, and they meet as torchrun's do.
  p->one_host = number(variables, "MPI_LOCALNRANKS") == p->size;
  p->job = variables("PMI_PORT").value_or("");
  read_master(*p, variables);
  return p;
}

// A port that other steps and jobs hardly have at the same time; below those that the system gives out.
int slurm_port(std::uint32_t job, std::uint32_t step) {
  constexpr std::uint32_t kFirst = 20'000;
  constexpr std::uint32_t kPorts = 12'000;
  return static_cast<int>(kFirst + (job * 16 + step) % kPorts);
}

std::optional<Placement> read_slurm(const Launcher& self, const Variables& variables, const JoinSettings&) {
  const auto step = slurm_step(variables);
  if (!step) return std::nullopt;
  Launcher launcher = self;
  // Of the two the step's own is the surer: a step may have fewer tasks than its job.
  constexpr std::string_view kOfJob = "SLURM_NTASKS";
  if (!variables(std::string(self.size)) && variables(std::string(kOfJob))) launcher.size = kOfJob;
  auto p = numbered(launcher, variables);
  if (!p)
    throw ConfigError(
        fmt::format("{} is set and {} is not; a launcher sets both", step->variable, self.rank));
  const auto list = needed(variables("SLURM_STEP_NODELIST"), "SLURM_STEP_NODELIST", self.rank);
  const auto nodes = parse_node_list(list);
  const auto job = number<std::uint32_t>(variables, "SLURM_JOB_ID").value_or(0);
  p->one_host = nodes.size() == 1;
  p->host = nodes.front();
  p->port = slurm_port(job, step->number);
  p->job = fmt::format("{}.{}", job, step->number);
  read_master(*p, variables);
  return p;
}

constexpr std::string_view kByFile = "one host: drawn by rank 0; several: TUTTI_SECRET_FILE";

constexpr Launcher kLaunchers[] = {
    {"tutti", "TUTTI_JOB_FD", "", "as the description says", "the inherited description", "", false,
     read_own},
    {"--cluster FILE", "--task", "--cluster", "the first worker's HOST:PORT", kByFile, "", false,
     read_cluster_file},
    {"TF_CONFIG", "TF_CONFIG", "TF_CONFIG", "the first worker's HOST:PORT", kByFile, "", false,
     read_tf_config},
    {"torchrun", "RANK", "WORLD_SIZE",
     "MASTER_ADDR:MASTER_PORT; under torchrun's own store the port after it", kByFile, "", false,
     read_torchrun},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "MPI; the library: MASTER_ADDR:MASTER_PORT",
     "MPI; the library: as torchrun", "Open MPI", false, read_open_mpi},
    {"PMI", "PMI_RANK", "PMI_SIZE", "PMI_FD; where it is not set, MASTER_ADDR:MASTER_PORT",
     "PMI; without PMI_FD as torchrun", "MPICH", false, read_pmi},
    {"SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "the first of SLURM_STEP_NODELIST, a port by job and step; MASTER_ADDR, MASTER_PORT win", kByFile, "",
     true, read_slurm},
};

// Notes what `other` says, where it is something else than what counts. Another rank is worse than another
// size: only the process that has it can tell it, so it takes the place of what is noted already.
void note_conflict(Placement& p, const Launcher& ours, const Launcher& other, const Variables& variables,
                   const JoinSettings& settings) {
  if (ours.starts_launchers || other.starts_launchers) return;
  std::optional<Placement> said;
  try {
    said = other.read(other, variables, settings);
  } catch (const ConfigError&) {
    return;  // who does not count may be wrong
  }
  if (!said || (said->rank == p.rank && said->size == p.size)) return;
  if (!p.conflict.empty() && said->rank == p.rank) return;
  p.ranks_conflict = said->rank != p.rank;
  p.conflict =
      fmt::format("{} says rank {} ({}) of {} ({}), {} says rank {} ({}) of {} ({}); what {} says counts",
                  ours.name, p.rank, ours.rank, p.size, ours.size, other.name, said->rank, other.rank,
                  said->size, other.size, ours.name);
}

}  // namespace

std::span<const Launcher> launchers() {
  return kLaunchers;
}

std::optional<Placement> find_placement(const Variables& variables, const JoinSettings& settings) {
  for (const Launcher& launcher : kLaunchers) {
    auto p = launcher.read(launcher, variables, settings);
    if (!p) continue;
    if (p->job_descriptor) return p;
    if (settings.port != 0) p->port = settings.port;
    for (const Launcher* other = &launcher + 1; other != std::end(kLaunchers) && !p->ranks_conflict;
         ++other) {
      note_conflict(*p, launcher, *other, variables, settings);
    }
    return p;
  }
  return std::nullopt;
}

std::string launchers_table() {
  const auto code = [](std::string_view name) {
    return name.empty() ? std::string() : fmt::format("`{}`", name);
  };
  std::string table =
      "| who has started us | rank | of how many | where they meet | the secret |\n|---|---|---|---|---|\n";
  for (const Launcher& l : kLaunchers) {
    table +=
        fmt::format("| {} | {} | {} | {} | {} |\n", l.name, code(l.rank), code(l.size), l.place, l.secret);
  }
  return table;
}

}  // namespace tutti::config
