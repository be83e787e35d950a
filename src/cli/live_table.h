// An experiment while it runs: on a terminal its table, drawn anew in place; elsewhere plain lines.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "lab/experiment.h"

namespace tutti::cli {

class LiveTable final : public Display, public lab::ExperimentView {
 public:
  // Shows the cells as they are whenever it draws; they outlive it.
  explicit LiveTable(const std::vector<report::Cell>& cells);
  ~LiveTable() override;

  void begin(std::size_t cell, std::size_t repeat) override;
  launch::Listener listener() override;
  void end(std::size_t cell, const std::string& what) override;

  void emit(const observe::Event& event) override;
  void line(const std::string& text) override;
  void error_line(const std::string& text) override;

 private:
  void draw();
  void clear();

  const std::vector<report::Cell>& cells_;
  std::vector<std::string> states_;
  std::size_t running_ = 0;
  std::string of_repeats_;           // "repeat 2 of 3: "
  std::unique_ptr<Progress> plain_;  // where there is no terminal, or not one that holds the table
  int drawn_ = 0;                    // lines
  Clock::time_point next_draw_{};
};

// Runs an experiment with its table shown. Returns the exit code where it was interrupted. Throws what
// lab::Experiment::run throws.
std::optional<int> run_with_table(lab::Experiment& experiment, bool again);

}  // namespace tutti::cli
