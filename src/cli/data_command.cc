#include <fmt/format.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "config/environment.h"
#include "data/fetch.h"

namespace tutti::cli {
namespace {

std::string folder_of(const data::LocatedDataset& located) {
  return located.paths[0].parent_path().string();
}

int list() {
  for (const auto& info : data::datasets()) {
    std::string where = "not here; tutti data fetch " + info.name;
    try {
      where = folder_of(data::locate(info, config::data_roots()));
    } catch (const DataError&) {  // said above
    }
    fmt::print("{:<15} {:<40} {}\n", info.name, info.title, where);
  }
  return 0;
}

int fetch(const std::string& name, const std::string& from) {
  const auto& info = data::find_dataset(name);
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  std::string current;
  const auto progress = [&](std::string_view file, std::uint64_t done, std::uint64_t total) {
    if (terminal) {
      fmt::print(stderr, "\r\x1b[K{} {} of {}", file, human_bytes(done),
                 total > 0 ? human_bytes(total) : "?");
      if (total > 0) fmt::print(stderr, " ({} %)", done * 100 / total);
      std::fflush(stderr);
    } else if (current != file) {
      fmt::print("fetching {}\n", file);
      std::fflush(stdout);
    }
    current = file;
  };
  const auto located = data::fetch(info, config::data_home(), data::parse_source(from), progress);
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  fmt::print("{} is in {}, verified\n", name, folder_of(located));
  return 0;
}

int verify(const std::string& name) {
  const auto& info = data::find_dataset(name);
  const auto located = data::locate(info, config::data_roots());
  data::verify(info, located);
  fmt::print("{}: all four files are whole, in {}\n", name, folder_of(located));
  return 0;
}

int path(const std::string& name) {
  fmt::print("{}\n", folder_of(data::locate(data::find_dataset(name), config::data_roots())));
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("data", "Data sets: list, fetch, verify, find");
  command->require_subcommand(1);
  const auto name = std::make_shared<std::string>();
  const auto from = std::make_shared<std::string>();
  command->add_subcommand("list", "What is known, and where it is")->callback([&action] { action = list; });
  const auto add = [&](const char* verb, const char* help, auto run) {
    auto* sub = command->add_subcommand(verb, help);
    sub->add_option("name", *name, "data set")->required();
    sub->callback([=, &action] { action = [=] { return run(); }; });
    return sub;
  };
  add("fetch", "Download and verify", [=] {
    return fetch(*name, *from);
  })->add_option("--from", *from, "URL, FILE or npm:PACKAGE instead of the publisher");
  add("verify", "Compare with the known digests", [=] { return verify(*name); });
  add("path", "Print the folder", [=] { return path(*name); });
}

}  // namespace tutti::cli
