// tutti: the command line. The only place that prints, and the only one that exits.
#include <fmt/format.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "base/version.h"
#include "cli/command.h"

namespace tutti::cli {

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

namespace {

// One line, whatever a message holds.
int fail(int code, std::string what) {
  std::ranges::replace(what, '\n', ' ');
  fmt::print(stderr, "tutti: {}\n", what);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app(
      "tutti trains neural networks under every architecture of distribution, and shows which is best.");
  app.set_version_flag("--version", std::string("tutti ") + kVersion);
  app.require_subcommand(1);
  Action action;
  add_train(app, action);
  add_compare(app, action);
  add_reproduce(app, action);
  add_report(app, action);
  add_bench(app, action);
  add_emulate(app, action);
  add_ckpt(app, action);
  add_data(app, action);
  add_models(app, action);
  add_doctor(app, action);
  add_worker(app, action);
  try {
    // CLI11 would only say that a command is missing.
    if (argc > 1 && argv[1][0] != '-') (void)app.get_subcommand(argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::OptionNotFound&) {
    return fail(2, fmt::format("unknown command '{}' (see tutti --help)", argv[1]));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return fail(2, fmt::format("{} (see tutti --help)", e.what()));
  }
  return action();
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return tutti::cli::run(argc, argv);
  } catch (const tutti::UsageError& e) {
    return tutti::cli::fail(2, e.what());
  } catch (const std::exception& e) {
    return tutti::cli::fail(1, e.what());
  }
}
