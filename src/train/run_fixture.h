// A whole run inside a test: workers and servers as threads.
#pragma once

#include <functional>

#include "net/inproc.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace tutti::train::fixture {

// Keeps what rank 0 tells.
struct Events final : observe::EventSink {
  void emit(const observe::Event& event) override { all.push_back(event); }

  template <typename Kind>
  std::vector<Kind> of() const {
    std::vector<Kind> found;
    for (const auto& event : all) {
      if (const auto* one = std::get_if<Kind>(&event)) found.push_back(*one);
    }
    return found;
  }
  std::vector<observe::Event> all;
};

struct Finished {
  nlohmann::json summary;  // rank 0's, as the file has it; null where the run was stopped
  Events events;
};

// Ranks reach each other over `medium`. `meanwhile` is called once, on rank 0's thread, with what the
// launcher would have: the job's board.
inline Finished run(const Setup& setup, const std::function<void(const net::StatusBoard&)>& meanwhile = {},
                    net::Medium medium = net::Medium::memory) {
  make_run_folder(setup);
  const int workers = setup.config.workers;
  Finished result;
  net::run_as_threads(medium, workers + setup.config.servers, std::chrono::seconds(100),
                      [&](net::Transport& t) {
                        if (to_int(t.rank()) >= workers) return serve(setup, t);
                        Events unheard;
                        const bool first = to_int(t.rank()) == 0;
                        if (first && meanwhile) meanwhile(t.board());
                        const auto summary = train(setup, t, first ? result.events : unheard);
                        if (first && summary) result.summary = *summary;
                      });
  return result;
}

}  // namespace tutti::train::fixture
