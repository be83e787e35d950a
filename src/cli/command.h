// The program's commands. Each adds itself to the app and, when chosen, runs and gives the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>

#include "launch/job.h"

namespace tutti::cli {

// What the chosen command does. Set while parsing, called after it.
using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_reproduce(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_slurm(CLI::App& app, Action& action);
void add_emulate(CLI::App& app, Action& action);
void add_launch(CLI::App& app, Action& action);
void add_ckpt(CLI::App& app, Action& action);
void add_bisect(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_models(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
// What launchers start, here and on other hosts; hidden.
void add_worker(CLI::App& app, Action& action);
void add_agent(CLI::App& app, Action& action);

// What a worker does, in this process: its task, until its end. The job's report pipe is closed. The result
// is the exit code; why it failed is in the last report.
int work(const launch::WorkerJob& job);

// Writes the page of a run, a comparison or a study into its folder (report/page.h) and returns its path.
std::filesystem::path write_page(const std::filesystem::path& folder);

// Says in one line on standard error why a command cannot go on. Returns the exit code.
int explain(const std::exception& e);

// The path of this executable, for starting workers.
std::string this_program();

}  // namespace tutti::cli
