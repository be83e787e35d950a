#include <fmt/format.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "config/environment.h"
#include "data/fetch.h"
#include "data/own_data.h"
#include "train/open_data.h"

namespace tutti::cli {
namespace {

int list() {
  const auto row = [](std::string_view name, std::string_view title, std::string_view where) {
    fmt::print("{:<15} {:<48} {}\n", name, title, where);
  };
  for (const auto& info : data::datasets()) {
    std::string where = "not here; " + data::fetch_command(info);
    try {
      where = data::locate(info, config::data_roots()).folder.string();
    } catch (const DataError&) {  // said above
    }
    row(info.name, info.title, where);
  }
  for (const auto& kind : data::own_data_kinds()) row(kind.spelling, kind.title, "your own");
  row(train::kSynthetic, "made up to fit the model", "nothing to fetch");
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
  fmt::print("{} is in {}, verified\n", name, located.folder.string());
  return 0;
}

int verify(const std::string& name) {
  const auto& info = data::find_dataset(name);
  const auto located = data::locate(info, config::data_roots());
  data::verify(info, located);
  fmt::print("{}: all files are whole, in {}\n", name, located.folder.string());
  return 0;
}

int path(const std::string& name) {
  fmt::print("{}\n", data::locate(data::find_dataset(name), config::data_roots()).folder.string());
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
