// Events for people: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <cstdio>
#include <string>

#include "base/deadline.h"
#include "observe/event.h"

namespace tutti::cli {

// Prints a line and flushes. Does not throw: a run goes on when its output cannot be written; main says so at
// the end.
void print_line(std::FILE* to, const std::string& text);

// Where a run shows itself. One thread.
class Display : public observe::EventSink {
 public:
  // Prints a line above what is drawn.
  virtual void line(const std::string& text) = 0;
  // The same to standard error.
  virtual void error_line(const std::string& text) = 0;
};

// One run. Writes to standard output, the bar to standard error.
class Progress final : public Display {
 public:
  Progress();
  ~Progress() override;

  void emit(const observe::Event& event) override;
  void line(const std::string& text) override;
  void error_line(const std::string& text) override;

 private:
  void on(const observe::RunStarted& e);
  void on(const observe::StepDone& e);
  void on(const observe::Evaluated& e);
  void on(const observe::CheckpointSaved& e);
  void on(const observe::Resumed& e);
  void on(const observe::Note& e);
  void draw();
  void clear();

  bool terminal_;
  bool drawn_ = false;
  observe::StepDone last_{};
  double rate_ = 0;  // samples a second, smoothed
  double seconds_left_ = 0;
  Clock::time_point next_print_{};
};

}  // namespace tutti::cli
