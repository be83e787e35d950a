#include <fmt/format.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "config/environment.h"
#include "config/flags.h"
#include "data/own_data.h"
#include "data/show.h"
#include "fetch/fetch.h"
#include "train/open_data.h"
#include "train/plan.h"

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
  const auto located = fetch::fetch(info, config::data_home(), fetch::parse_source(from), progress);
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  fmt::print("{} is in {}, verified\n", name, located.folder.string());
  return 0;
}

int verify(const std::string& name) {
  const auto& info = data::find_dataset(name);
  const auto located = data::locate(info, config::data_roots());
  fetch::verify(info, located);
  fmt::print("{}: all files are whole, in {}\n", name, located.folder.string());
  return 0;
}

nlohmann::json json_of(const data::Overview& o) {
  auto fields = nlohmann::json::array();
  for (const Field& f : o.fields)
    fields.push_back({{"name", f.name}, {"shape", f.shape}, {"below", f.below}});
  auto classes = nlohmann::json::array();
  for (std::size_t c = 0; c < o.by_class.size(); ++c) {
    classes.push_back({{"name", c < o.names.size() ? o.names[c] : std::to_string(c)},
                       {"training", o.by_class[c][0]},
                       {"test", o.by_class[c][1]}});
  }
  auto numbers = nlohmann::json::array();
  for (const auto& n : o.numbers) {
    numbers.push_back({{"field", n.field},
                       {"mean", n.mean},
                       {"deviation", n.deviation},
                       {"least", n.least},
                       {"most", n.most}});
  }
  return {{"fields", fields},
          {"training", o.samples[0]},
          {"test", o.samples[1]},
          {"classes", classes},
          {"numbers", numbers}};
}

int show(const config::TrainConfig& config, std::size_t samples, bool json) {
  config::validate(config);
  const auto info = data::find_dataset(config.data, train::own_data_of(config));
  const data::Show set(info, data::locate(info, config::data_roots()), config::cache_folder());
  if (json) {
    // Names are a stranger's bytes, and need not be UTF-8.
    fmt::print("{}\n", json_of(set.overview()).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", set.text({.samples = samples, .blocks = config::text_is_utf8()}));
  }
  return 0;
}

int path(const std::string& name) {
  fmt::print("{}\n", data::locate(data::find_dataset(name), config::data_roots()).folder.string());
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("data", "Data sets: list, fetch, show, verify, path");
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
  struct ShowOptions {
    config::TrainConfig config;
    std::size_t samples = 3;
    bool json = false;
  };
  const auto options = std::make_shared<ShowOptions>();
  auto* shown = add("show", "Shapes, classes, counts and a few samples, drawn", [=] {
    options->config.data = *name;
    return show(options->config, options->samples, options->json);
  });
  config::add_own_data_flags(*shown, options->config);
  shown->add_option("--samples", options->samples, "to draw; 0: none")->capture_default_str();
  shown->add_flag("--json", options->json, "all of it but the drawn samples, as JSON");
  add("verify", "Compare with the known digests", [=] { return verify(*name); });
  add("path", "Print the folder", [=] { return path(*name); });
}

}  // namespace tutti::cli
