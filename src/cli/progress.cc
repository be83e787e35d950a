#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/bytes.h"

namespace tutti::cli {
namespace {

constexpr auto kBarInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(5);

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void print_line(std::FILE* to, const std::string& text) {
  const std::string whole = text + '\n';
  (void)!std::fwrite(whole.data(), 1, whole.size(), to);
  std::fflush(to);
}

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::emit(const observe::Event& event) {
  std::visit([this](const auto& e) { on(e); }, event);
}

void Progress::line(const std::string& text) {
  clear();
  print_line(stdout, text);
}

void Progress::error_line(const std::string& text) {
  clear();
  print_line(stderr, text);
}

void Progress::on(const observe::RunStarted& e) {
  rate_ = 0;  // another run of a comparison
  line(fmt::format("{} parameters, steps {} to {}; exchange: {}", e.parameters, e.first_step + 1,
                   e.total_steps, e.exchange));
}

void Progress::on(const observe::StepDone& e) {
  const double rate = static_cast<double>(e.samples) / (e.step_ms / 1000.0);
  rate_ = rate_ == 0 ? rate : 0.95 * rate_ + 0.05 * rate;
  seconds_left_ = static_cast<double>((e.total_steps - e.step) * e.samples) / rate_;
  last_ = e;
  const bool last = e.step == e.total_steps;
  if (Clock::now() < next_print_ && !last) return;
  next_print_ = Clock::now() + (terminal_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval));
  if (terminal_) {
    draw();
  } else {
    line(fmt::format("step {}/{}  epoch {}  loss {:.4f}  {:.0f} samples/s  {} left", e.step, e.total_steps,
                     e.epoch, e.loss, rate_, clock_text(seconds_left_)));
  }
}

void Progress::on(const observe::Evaluated& e) {
  std::string text = fmt::format("epoch {}  step {}  test", e.epoch, e.step);
  for (const auto& [name, value] : e.figures) text += fmt::format("  {} {:.4f}", name, value);
  line(text);
}

void Progress::on(const observe::CheckpointSaved& e) {
  line("checkpoint " + e.path);
}

void Progress::on(const observe::Resumed& e) {
  line(fmt::format("goes on after step {} from {}", e.step, e.path));
}

void Progress::on(const observe::Note& e) {
  line(e.text);
}

void Progress::draw() {
  const std::string tail = fmt::format(" {}/{}  loss {:.4f}  {:.0f} samples/s  {} left", last_.step,
                                       last_.total_steps, last_.loss, rate_, clock_text(seconds_left_));
  const int room = std::max(10, std::min(40, terminal_width() - static_cast<int>(tail.size()) - 3));
  const auto full = static_cast<int>(static_cast<double>(room) * static_cast<double>(last_.step) /
                                     static_cast<double>(std::max<std::int64_t>(1, last_.total_steps)));
  fmt::print(stderr, "\r\x1b[K[{}{}]{}", std::string(static_cast<std::size_t>(full), '#'),
             std::string(static_cast<std::size_t>(room - full), '.'), tail);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace tutti::cli
