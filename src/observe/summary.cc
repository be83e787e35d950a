#include "observe/summary.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "observe/record_json.h"

namespace tutti::observe {

template <>
inline constexpr auto kKeys<StepMs> = std::tuple(Key{"median", &StepMs::median, Presence::needed},
                                                 Key{"p90", &StepMs::p90});

template <>
inline constexpr auto kKeys<Restart> = std::tuple(Key{"because", &Restart::because},
                                                  Key{"from_step", &Restart::from_step});

template <>
inline constexpr auto kKeys<Staleness> = std::tuple(Key{"mean", &Staleness::mean},
                                                    Key{"max", &Staleness::max},
                                                    Key{"histogram", &Staleness::histogram});

// pieces_applied first: where there are no servers, bytes_sent_per_server is there all the same.
template <>
inline constexpr auto kKeys<ServersFigures> =
    std::tuple(Key{"pieces_applied", &ServersFigures::pieces_applied},
               Key{"pieces_dropped", &ServersFigures::pieces_dropped},
               Key{"pieces_repeated", &ServersFigures::pieces_repeated},
               Key{"max_lead", &ServersFigures::max_lead}, Key{"staleness", &ServersFigures::staleness},
               Key{"bytes_sent_per_server", &ServersFigures::bytes_sent_per_server});

template <>
inline constexpr auto kKeys<PartitionsTried::Trial> = std::tuple(Key{"partitions",
                                                                     &PartitionsTried::Trial::partitions},
                                                                 Key{"ms", &PartitionsTried::Trial::ms});

template <>
inline constexpr auto kKeys<PartitionsTried> = std::tuple(Key{"trials", &PartitionsTried::trials},
                                                          Key{"chosen", &PartitionsTried::chosen},
                                                          Key{"reason", &PartitionsTried::reason});

template <>
inline constexpr auto kKeys<CollectiveUsed> = std::tuple(Key{"operation", &CollectiveUsed::operation},
                                                         Key{"algorithm", &CollectiveUsed::algorithm},
                                                         Key{"bytes", &CollectiveUsed::bytes},
                                                         Key{"reason", &CollectiveUsed::reason});

template <>
inline constexpr auto kKeys<Until::Target> = std::tuple(Key{"figure", &Until::Target::figure},
                                                        Key{"value", &Until::Target::value});

template <>
inline constexpr auto kKeys<Until> = std::tuple(Key{"target", &Until::target},
                                                Key{"reached", &Until::reached},
                                                Key{"time_to_target_seconds", &Until::time_to_target_seconds,
                                                    Presence::null_if_none});

template <>
inline constexpr auto kKeys<Emulated::Host> = std::tuple(
    Key{"host", &Emulated::Host::host}, Key{"ranks", &Emulated::Host::ranks},
    Key{"bytes_sent", &Emulated::Host::bytes_sent}, Key{"packets_sent", &Emulated::Host::packets_sent},
    Key{"bytes_received", &Emulated::Host::bytes_received},
    Key{"packets_received", &Emulated::Host::packets_received},
    Key{"packets_dropped", &Emulated::Host::packets_dropped});

template <>
inline constexpr auto kKeys<Emulated> = std::tuple(Key{"hosts", &Emulated::hosts},
                                                   Key{"link", &Emulated::link},
                                                   Key{"per_host", &Emulated::per_host});

template <>
inline constexpr auto kKeys<Machine> = std::tuple(Key{"cpu", &Machine::cpu}, Key{"cores", &Machine::cores},
                                                  Key{"memory_bytes", &Machine::memory_bytes},
                                                  Key{"kernel", &Machine::kernel});

template <>
inline constexpr auto kKeys<EpochSamples> = std::tuple(Key{"epoch", &EpochSamples::epoch},
                                                       Key{"samples", &EpochSamples::samples},
                                                       Key{"digest", &EpochSamples::digest},
                                                       Key{"partial", &EpochSamples::partial});

// Needed is what tables, verdicts and pages count on; the rest may be missing in files of earlier versions.
template <>
inline constexpr auto kKeys<Summary> = std::tuple(
    Key{"model", &Summary::model, Presence::needed}, Key{"data", &Summary::data, Presence::needed},
    Key{"strategy", &Summary::strategy, Presence::needed},
    Key{"workers", &Summary::workers, Presence::needed}, Key{"servers", &Summary::servers},
    Key{"steps", &Summary::steps, Presence::needed}, Key{"batch_per_worker", &Summary::batch_per_worker},
    Key{"seed", &Summary::seed}, Key{"reproducible", &Summary::reproducible},
    Key{"samples_per_second", &Summary::samples_per_second, Presence::needed},
    Key{"steps_per_second", &Summary::steps_per_second},
    Key{"gradients_per_second", &Summary::gradients_per_second},
    Key{"words_per_second", &Summary::words_per_second}, Key{"steps_per_worker", &Summary::steps_per_worker},
    Key{"pace_ms", &Summary::pace_ms}, Key{"slow", &Summary::slow},
    Key{"step_ms", &Summary::step_ms, Presence::needed}, Key{"compute_ms", &Summary::compute_ms},
    Key{"exchange_ms", &Summary::exchange_ms, Presence::needed},
    Key{"exposed_exchange_ms", &Summary::exposed_exchange_ms, Presence::needed},
    Key{"finite_check_ms", &Summary::finite_check_ms},
    Key{"checkpoint_hold_ms", &Summary::checkpoint_hold_ms},
    Key{"checkpoint_copy_ms", &Summary::checkpoint_copy_ms}, Key{"wall_seconds", &Summary::wall_seconds},
    Key{"bytes_sent_per_worker", &Summary::bytes_sent_per_worker, Presence::needed},
    Key{"peak_memory_bytes", &Summary::peak_memory_bytes}, Key{"parameter_bytes", &Summary::parameter_bytes},
    Key{"train_loss", &Summary::train_loss, Presence::null_if_none}, Prefixed{"test_", &Summary::test},
    Among{&Summary::until}, Key{"skipped_steps", &Summary::skipped_steps},
    Key{"dropped_workers", &Summary::dropped_workers}, Key{"restarts", &Summary::restarts},
    Key{"restart_causes", &Summary::restart_causes, Presence::unless_empty},
    Key{"collectives", &Summary::collectives}, Among{&Summary::by_servers},
    Key{"routes", &Summary::routes, Presence::unless_empty}, Key{"partitions", &Summary::partitions},
    Key{"partition_search", &Summary::partition_search},
    Key{"parameters_sha256", &Summary::parameters_sha256, Presence::needed},
    Key{"replicas_sha256", &Summary::replicas_sha256, Presence::needed},
    Key{"initial_parameters_sha256", &Summary::initial_parameters_sha256},
    Key{"samples_sha256", &Summary::samples_sha256}, Key{"sample_ledger", &Summary::sample_ledger},
    Key{"data_sha256", &Summary::data_sha256}, Key{"model_sha256", &Summary::model_sha256},
    Key{"machine", &Summary::machine}, Key{"config", &Summary::config, Presence::needed},
    Key{"version", &Summary::version}, Key{"emulated", &Summary::emulated},
    Key{"rejected_connections", &Summary::rejected_connections});

void to_json(nlohmann::json& json, const Summary& summary) {
  json = write_record(summary);
  if (!summary.by_servers) json["bytes_sent_per_server"] = 0;
}

void from_json(const nlohmann::json& json, Summary& summary) {
  if (!json.is_object()) throw DataError(fmt::format("it is {}, not an object", record_json::shown(json)));
  read_record(json, summary);
}

void to_json(nlohmann::json& json, const Restart& restart) {
  json = write_record(restart);
}

void from_json(const nlohmann::json& json, Restart& restart) {
  read_record(json, restart);
}

void to_json(nlohmann::json& json, const Emulated& emulated) {
  json = write_record(emulated);
}

namespace {

struct SummaryFile {
  nlohmann::json json;
  Summary summary;
};

SummaryFile read_both(const std::filesystem::path& run_folder) {
  const auto path = run_folder / kSummaryFile;
  SummaryFile file;
  try {
    file.json = nlohmann::json::parse(read_file(path));
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: {}", path.string(), e.what()));
  }
  try {
    file.json.get_to(file.summary);
  } catch (const DataError& e) {
    throw DataError(fmt::format("{}: no summary of a run: {}", path.string(), e.what()));
  }
  return file;
}

}  // namespace

Summary read_summary(const std::filesystem::path& run_folder) {
  return read_both(run_folder).summary;
}

nlohmann::json read_summary_json(const std::filesystem::path& run_folder) {
  return read_both(run_folder).json;
}

void write_summary(const std::filesystem::path& run_folder, const Summary& summary) {
  write_file_atomically(run_folder / kSummaryFile, nlohmann::json(summary).dump(2) + "\n");
}

void add_to_summary(const std::filesystem::path& run_folder, const std::optional<Emulated>& emulated,
                    std::uint64_t rejected_connections) {
  Summary summary = read_summary(run_folder);
  summary.emulated = emulated;
  summary.rejected_connections = rejected_connections;
  write_summary(run_folder, summary);
}

std::string conditions_of(const Summary& s) {
  std::vector<std::string> said;
  if (s.pace_ms > 0) said.push_back(fmt::format("paced at {} ms", s.pace_ms));
  if (!s.slow.empty()) said.push_back("slowed " + s.slow);
  if (const auto flipped = s.config.value("flip_bit", ""); !flipped.empty())
    said.push_back("a bit flipped at " + flipped);
  if (s.emulated) {
    said.push_back(fmt::format("emulated hosts={},link={}", s.emulated->hosts, s.emulated->link));
  }
  return fmt::format("{}", fmt::join(said, ", "));
}

bool replicas_agree(const Summary& s) {
  return std::ranges::all_of(s.replicas_sha256, [&](const auto& r) { return r == s.parameters_sha256; });
}

}  // namespace tutti::observe
