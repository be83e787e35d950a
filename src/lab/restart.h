// Starting a job again that a fault has ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "launch/launcher.h"

namespace tutti::lab {

// Whether a job that ended so may end better when it is started again: a fault ended it, and nobody asked for
// its end. What the user gave us stays as it is, and so do usage errors.
bool may_end_better(const launch::Outcome& outcome);

// Before the restart of this number, from 1: 1 s, 2 s, 4 s and so on, at most 30 s.
std::chrono::seconds pause_before(int restart);

// Blocks for so long, or until SIGINT, SIGTERM or SIGHUP comes: returns that signal, else 0.
int pause_unless_interrupted(std::chrono::seconds length);
using Pause = std::function<int(std::chrono::seconds)>;

// A job that can be run more than once.
struct Attempts {
  int restarts = 0;                                                  // at most
  std::function<launch::Outcome()> run;                              // to its end
  std::function<std::string(const launch::Outcome& failed)> rewind;  // before it is run again; from where
  std::function<void(const std::string&)> say;                       // to the user, a line
  Pause pause = pause_unless_interrupted;
};

// Runs the job until it ends well, may not end better, is interrupted, or has no restart left. Returns how it
// ended last. Throws what the functions throw.
launch::Outcome run_with_restarts(const Attempts& job);

}  // namespace tutti::lab
