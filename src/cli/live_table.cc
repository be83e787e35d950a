#include "cli/live_table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>

#include "cli/train_command.h"
#include "report/table.h"

namespace tutti::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

// Rows and columns of standard error; none where that is no terminal.
winsize terminal() {
  winsize size{};
  if (::isatty(STDERR_FILENO) == 0 || ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

}  // namespace

LiveTable::LiveTable(const std::vector<report::Cell>& cells) : cells_(cells), states_(cells.size(), "waits") {
  if (terminal().ws_row < cells.size() + 4) plain_ = std::make_unique<Progress>();
}

LiveTable::~LiveTable() {
  clear();
}

void LiveTable::begin(std::size_t cell, std::size_t repeat) {
  const auto& c = cells_[cell];
  running_ = cell;
  of_repeats_ =
      c.repeats.size() > 1 ? fmt::format("repeat {} of {}: ", repeat + 1, c.repeats.size()) : std::string();
  states_[cell] = of_repeats_ + "starts";
  if (plain_) {
    line(fmt::format("\n{}{} with {} worker{}", of_repeats_, label_of(c), c.workers,
                     c.workers == 1 ? "" : "s"));
  } else {
    draw();
  }
}

launch::Listener LiveTable::listener() {
  return listener_for(*this);
}

void LiveTable::end(std::size_t cell, const std::string& what) {
  states_[cell] = of_repeats_ + what;
  if (plain_) {
    line(states_[cell]);
  } else {
    draw();
  }
}

void LiveTable::emit(const observe::Event& event) {
  if (plain_) return plain_->emit(event);
  const auto* step = std::get_if<observe::StepDone>(&event);
  if (step == nullptr) return;
  states_[running_] =
      fmt::format("{}step {}/{}, loss {:.4f}, {:.0f} samples/s", of_repeats_, step->step, step->total_steps,
                  step->loss, static_cast<double>(step->samples) / (step->step_ms / 1000.0));
  if (Clock::now() >= next_draw_) draw();
}

void LiveTable::line(const std::string& text) {
  if (plain_) return plain_->line(text);
  clear();
  print_line(stdout, text);
  draw();
}

void LiveTable::error_line(const std::string& text) {
  if (plain_) return plain_->error_line(text);
  clear();
  print_line(stderr, text);
  draw();
}

void LiveTable::draw() {
  clear();
  const std::size_t columns = terminal().ws_col;
  std::istringstream table(report::render_table(cells_, states_));
  for (std::string row; std::getline(table, row); ++drawn_) {
    // A row that wraps would be two to clear.
    fmt::print(stderr, "{}\n", columns > 0 ? row.substr(0, columns - 1) : row);
  }
  std::fflush(stderr);
  next_draw_ = Clock::now() + kInterval;
}

void LiveTable::clear() {
  if (drawn_ == 0) return;
  fmt::print(stderr, "\r\x1b[{}A\x1b[J", std::exchange(drawn_, 0));
  std::fflush(stderr);
}

std::optional<int> run_with_table(lab::Experiment& experiment, bool again) {
  LiveTable table(experiment.cells());
  const auto interrupted = experiment.run(table, again);
  if (!interrupted) return std::nullopt;
  table.error_line(fmt::format("tutti: {}; what has finished is kept, the same command goes on from there",
                               interrupted->line));
  return interrupted->exit_code;
}

}  // namespace tutti::cli
