// tutti: the command line.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
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

// A thread that cannot hand its failure to another lets it end the process (mpi/watchdog.h): with the line
// and the code that it would have had.
[[noreturn]] void end_with_a_line() {
  std::string what = "the program ended in an unforeseen way";
  try {
    if (const auto failure = std::current_exception()) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
  }
  ::_exit(fail(1, what));
}

// A descriptor of ours with the number of one that our caller has closed would be taken for standard input or
// output, by us and by our workers. An open takes the lowest number that is free.
void fill_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", O_RDWR) != fd) ::_exit(1);  // nobody is left whom it could be said to
  }
}

// What a command printed may still be on its way, or have been lost long ago: a full disk, a reader that has
// left.
int after_output(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  const std::string why = errno != 0 ? ": " + std::generic_category().message(errno) : "";
  return fail(1, "not all output could be written to standard output" + why);
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
  add_launch(app, action);
  add_slurm(app, action);
  add_emulate(app, action);
  add_ckpt(app, action);
  add_bisect(app, action);
  add_data(app, action);
  add_models(app, action);
  add_doctor(app, action);
  add_worker(app, action);
  add_agent(app, action);
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

int run_and_explain(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    return explain(e);
  }
}

}  // namespace

int explain(const std::exception& e) {
  return fail(dynamic_cast<const UsageError*>(&e) != nullptr ? 2 : 1, e.what());
}

}  // namespace tutti::cli

int main(int argc, char** argv) {
  std::set_terminate(tutti::cli::end_with_a_line);
  tutti::cli::fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGUSR1,
              SIG_IGN);  // asks a run that trains for a checkpoint (launch/launcher.h), and else for nothing
  return tutti::cli::after_output(tutti::cli::run_and_explain(argc, argv));
}
