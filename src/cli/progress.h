// Events for people: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <string>

#include "base/deadline.h"
#include "observe/event.h"

namespace tutti::cli {

// Writes to standard output, the bar to standard error. One thread.
class Progress final : public observe::EventSink {
 public:
  Progress();
  ~Progress() override;

  void emit(const observe::Event& event) override;

  // Prints a line above the bar.
  void line(const std::string& text);
  // The same to standard error.
  void error_line(const std::string& text);

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
