#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/joined.h"
#include "cli/train_command.h"
#include "lab/bisect.h"
#include "lab/run.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

struct BisectFlags {
  std::string a, b;
  std::string out = "runs/bisect";
  bool json = false;
  bool keep = false;
};

// A signal has ended a run, and with it the search.
struct Interrupted {
  int exit_code;
};

// A run in the background of another task: only what it says at its end counts. Why it failed; empty: it did
// not.
std::string train_quietly(const config::TrainConfig& config,
                          const std::optional<std::vector<std::string>>& kernels = {}) {
  auto run = prepare_here(config);
  run.kernels = kernels;
  const launch::Listener deaf{[](Rank, bool, const std::string&) {}, [](Rank, const nlohmann::json&) {}};
  const auto outcome = lab::run_training(run, this_program(), deaf);
  if (outcome.interrupted_by != 0) throw Interrupted{outcome.exit_code};
  return outcome.exit_code == 0 ? "" : outcome.line;
}

// Folders of replays, gone with it unless they are kept.
class Scratch {
 public:
  Scratch(fs::path path, bool keep) : path_(std::move(path)), keep_(keep) {}
  ~Scratch() {
    std::error_code ignored;
    if (keep_) return;
    remove_tree(path_, ignored);
    fs::remove(path_.parent_path(), ignored);  // only where nothing else is in it
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
  const bool keep_;
};

void say(const std::string& line) {
  print_line(stderr, line);
}

// What is named: a run folder, or a configuration file that is trained first.
fs::path run_of(const std::string& named, const fs::path& place) {
  if (!fs::exists(named)) throw DataError(fmt::format("{}: no such folder or file", named));
  if (fs::is_directory(named)) return named;
  auto config = parse_train({"--config", named});
  if (config.workers == 0) config.workers = 1;
  config.out = place.string();
  say(fmt::format("training {} into {}", named, place.string()));
  if (const auto why = train_quietly(config); !why.empty()) throw RunError(fmt::format("{}: {}", named, why));
  return place;
}

int search(const BisectFlags& flags) {
  const fs::path out = flags.out;
  const auto a = run_of(flags.a, out / "a");
  const auto b = run_of(flags.b, out / "b");
  const Scratch scratch(out / fmt::format("replays-{}", ::getpid()), flags.keep);
  const auto found = lab::bisect(a, b, {scratch.path(), train_quietly, say});
  if (flags.keep && fs::exists(scratch.path()))
    say(fmt::format("replays are in {}", scratch.path().string()));
  fmt::print("{}", flags.json ? nlohmann::json(found).dump(2) + "\n" : lab::render(found));
  return found.identical ? 0 : 1;
}

int bisect(const BisectFlags& flags) {
  require_own_launcher("bisect");
  try {
    return search(flags);
  } catch (const Interrupted& e) {
    return e.exit_code;
  }
}

}  // namespace

void add_bisect(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bisect",
                                     "Where two runs begin to differ: step, tensor, element, and which side "
                                     "of the exchange; exit 0 if they do not, 1 if they do");
  const auto flags = std::make_shared<BisectFlags>();
  const char* what =
      "run folder, or a configuration file as --config of train takes it, which is trained first";
  command->add_option("first", flags->a, what)->required();
  command->add_option("second", flags->b, what)->required();
  command->add_option("--out", flags->out, "folder for what is trained here")->capture_default_str();
  command->add_flag("--json", flags->json, "the answer as JSON");
  command->add_flag("--keep", flags->keep, "leave the folders of replays, with their records");
  command->callback([flags, &action] { action = [flags] { return bisect(*flags); }; });
}

}  // namespace tutti::cli
