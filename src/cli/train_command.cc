#include "cli/train_command.h"

#include <fmt/format.h>

#include <ctime>

#include "base/bytes.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "config/environment.h"
#include "config/flags.h"
#include "lab/run.h"
#include "report/page.h"
#include "report/summary.h"
#include "train/resume.h"

namespace tutti::cli {
namespace {

void print_traffic(const nlohmann::json& emulated) {
  for (const auto& host : emulated.at("per_host")) {
    const auto number = [&](const char* key) { return host.at(key).get<std::uint64_t>(); };
    fmt::print("\n  emulated host {:>2}: sent {:>10} in {:>8} packets, received {:>10} in {:>8}",
               number("host"), human_bytes(number("bytes_sent")), number("packets_sent"),
               human_bytes(number("bytes_received")), number("packets_received"));
  }
}

void print_summary(const nlohmann::json& s, const std::string& folder, std::uint64_t rejected_connections) {
  const auto number = [&](const char* key) { return s.at(key).get<double>(); };
  fmt::print(
      "\n{} workers: {:.0f} samples/s, step {:.2f} ms (p90 {:.2f}), compute {:.2f} ms, exchange {:.2f} ms of "
      "which "
      "{:.2f} ms exposed\n",
      s.at("workers").get<int>(), number("samples_per_second"), s.at("step_ms").at("median").get<double>(),
      s.at("step_ms").at("p90").get<double>(), number("compute_ms"), number("exchange_ms"),
      number("exposed_exchange_ms"));
  if (s.contains("words_per_second")) fmt::print("{:.0f} words/s; ", number("words_per_second"));
  fmt::print("each worker sent {}", human_bytes(s.at("bytes_sent_per_worker").get<std::uint64_t>()));
  if (!s.at("train_loss").is_null()) fmt::print("; train loss {:.4f}", number("train_loss"));
  for (const auto& [key, value] : s.items()) {
    if (key.starts_with("test_") && value.is_number()) {
      fmt::print("; test {} {:.4f}", key.substr(5), value.get<double>());
    }
  }
  if (s.contains("target")) {
    fmt::print("\n{} {} {}", s.at("target").at("figure").get<std::string>(),
               s.at("target").at("value").get<double>(),
               s.at("reached").get<bool>()
                   ? fmt::format("was reached after {:.1f} s", number("time_to_target_seconds"))
                   : "was not reached");
  }
  const auto conditions = report::conditions_of(s);
  if (!conditions.empty()) fmt::print("\n{}", conditions);
  if (s.value("pace_ms", 0.0) > 0) fmt::print(": no training, only its exchange");
  if (s.contains("emulated")) print_traffic(s["emulated"]);
  if (s.contains("staleness")) {
    fmt::print(
        "\nstaleness of gradients {:.2f} on average, {} at most; lead {} at most; {} pieces applied, {} "
        "dropped",
        s.at("staleness").at("mean").get<double>(), s.at("staleness").at("max").get<int>(),
        s.at("max_lead").get<int>(), s.at("pieces_applied").get<std::int64_t>(),
        s.at("pieces_dropped").get<std::int64_t>());
  }
  fmt::print("\nparameters {} on {}\n", s.at("parameters_sha256").get<std::string>().substr(0, 16),
             report::replicas_agree(s) ? "every replica" : "rank 0 ONLY: replicas differ");
  if (rejected_connections > 0)
    fmt::print("{} connections were rejected: they did not know the secret of the job\n",
               rejected_connections);
  fmt::print("everything is in {}\n", folder);
}

int train(const config::TrainConfig& config) {
  auto run = prepare_here(config);
  const auto& resolved = run.setup.config;
  if (run.complete) {
    fmt::print("the run in {} is complete: nothing is left to do\n", resolved.out);
    return 0;
  }
  fmt::print("{}", config::resolved_table(resolved));
  std::fflush(stdout);
  launch::Outcome outcome;
  {
    Progress progress;
    outcome = run_shown(run, progress);
  }
  if (outcome.exit_code != 0) {
    fmt::print(stderr, "tutti: {}\n", outcome.line);
    return outcome.exit_code;
  }
  auto summary = report::read_summary(resolved.out);
  summary["rejected_connections"] = outcome.rejected_connections;
  write_file_atomically(std::filesystem::path(resolved.out) / "summary.json", summary.dump(2) + "\n");
  const auto page = report::write_page(resolved.out);
  print_summary(summary, resolved.out, outcome.rejected_connections);
  fmt::print("the page is {}\n", page.string());
  return report::replicas_agree(summary) ? 0 : 1;
}

// What is not said now is as it was: the config that was saved is the default, the given flags are laid over
// it. Nothing was saved where --resume auto begins.
config::TrainConfig laid_over_saved(const CLI::App& command, const config::TrainConfig& config) {
  const bool automatic = config.resume == train::kAuto;
  if (automatic && config.out.empty()) return config;  // train() says what is missing
  const auto& from = automatic ? config.out : config.resume;
  // Reading a large checkpoint takes its time; that the folder is taken is said before.
  const auto folder = config.out.empty() ? train::run_folder_of(from).string() : config.out;
  if (!folder.empty()) (void)train::FolderLock::take_if_there(folder);
  if (automatic && !checkpoint::latest(from)) return config;
  config::TrainConfig merged = train::config_of_run(from);
  merged.out.clear();
  merged.overwrite = false;  // that was for the folder as it was then
  config::lay_over(command, config, merged);
  // Saying how long in one unit replaces what was said in the other, and so does saying how fast.
  if (command.count("--steps") > 0 && command.count("--epochs") == 0) merged.epochs = 0;
  if (command.count("--epochs") > 0 && command.count("--steps") == 0) merged.steps = 0;
  if (command.count("--device-tflops") > 0 && command.count("--pace") == 0) merged.pace_ms = 0;
  return merged;
}

}  // namespace

train::Prepared prepare_here(const config::TrainConfig& config) {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char now[32];
  std::strftime(now, sizeof now, "%Y%m%d-%H%M%S", &local);
  return train::prepare(config, {config::data_roots(), config::cache_folder()}, config::omp_threads(), now);
}

launch::Listener listener_for(Display& display) {
  return {[&display](Rank r, bool is_error, const std::string& text) {
            const auto line = fmt::format("[{}] {}", to_int(r), text);
            is_error ? display.error_line(line) : display.line(line);
          },
          [&display](Rank, const nlohmann::json& json) { display.emit(observe::from_json(json)); }};
}

launch::Outcome run_shown(train::Prepared& run, Display& display) {
  return lab::run_training(run, this_program(), listener_for(display));
}

void add_train(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("train", "Train a model, by one process or by many");
  const auto config = std::make_shared<config::TrainConfig>();
  const auto file = std::make_shared<std::string>();
  config::add_train_flags(*command, *config);
  command->add_option("--config", *file, "a file of `flag = value` lines; flags and environment win over it");
  command->callback([=, &action] {
    if (!file->empty()) config::apply_config_file(*command, *file);
    action = [=] { return train(config->resume.empty() ? *config : laid_over_saved(*command, *config)); };
  });
}

}  // namespace tutti::cli
