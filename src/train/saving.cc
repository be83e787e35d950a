#include "train/saving.h"

#include <thread>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace tutti::train {
namespace {

// How often somebody who waits for others' parts looks for them.
constexpr auto kGlance = std::chrono::milliseconds(5);

std::size_t bytes_of(const state::Snapshot& snapshot) {
  std::size_t bytes = 0;
  for (const auto& view : snapshot.views()) bytes += view.bytes.size();
  return bytes;
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
}

void rethrow_nonfinite(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const NonFinite&) {
    throw;
  } catch (...) {  // told as a note
  }
}

}  // namespace

void Saving::save(exchange::Replica& replica, const state::Buffers& buffers, const What& what,
                  nlohmann::json meta) {
  const auto [step, differs, leads, hold] = what;
  const bool parts = differs != state::Differs::nothing && workers_ > 1;
  if (leads) {
    const auto begin = Clock::now();
    const auto model = std::make_shared<const state::Snapshot>(
        state::snapshot_model(replica.buckets, replica.tables, buffers, hold));
    auto memory = state::snapshot_optimizer(replica.buckets, replica.tables, replica.updater, hold);
    state::add_own_state(memory, replica.buckets, replica.exchange->own_state(), hold);
    const auto optimizer = std::make_shared<const state::Snapshot>(std::move(memory));
    const auto copied = Clock::now() - begin;
    writer_.post(
        step, bytes_of(*model) + bytes_of(*optimizer),
        [this, step = step, model, optimizer, meta = std::move(meta),
         parts](const std::atomic<bool>& stopped) {
          return put_together(step, *model, *optimizer, meta, parts, stopped);
        },
        parts);
    if (hold == state::Hold::originals) return;
    copied_ms_.push_back(milliseconds(copied));
    held_ms_.push_back(milliseconds(Clock::now() - begin));
  } else if (parts) {
    const auto own = std::make_shared<const state::Snapshot>(state::snapshot_replica(
        replica.buckets, replica.tables, buffers, replica.updater, differs, state::Hold::copies));
    writer_.post(
        step, bytes_of(*own),
        [this, step = step, own](const std::atomic<bool>&) {
          try {
            check_finite(*own, step);
            checkpoint::save_replica(run_, step, to_int(self_), own->views());
            board_.checkpoint_parts().report(self_, step, true);
          } catch (...) {
            board_.checkpoint_parts().report(self_, step, false);
            throw;
          }
          return std::filesystem::path();
        },
        true);
  }
}

std::filesystem::path Saving::put_together(std::int64_t step, const state::Snapshot& model,
                                           const state::Snapshot& optimizer, const nlohmann::json& meta,
                                           bool parts, const std::atomic<bool>& stopped) const {
  for (const state::Snapshot* s : {&model, &optimizer}) check_finite(*s, step);
  std::vector<int> replicas;
  for (int r = 0; parts && r < workers_; ++r) {
    if (Rank{r} == self_) continue;
    using State = net::CheckpointParts::State;
    const auto on_board = board_.checkpoint_parts();
    while (!stopped && on_board.of(Rank{r}, step) == State::missing) std::this_thread::sleep_for(kGlance);
    if (on_board.of(Rank{r}, step) != State::written) {
      checkpoint::discard_partial(run_, step);
      throw RunError(fmt::format("the checkpoint of step {} lacks rank {}'s part", step, r));
    }
    replicas.push_back(r);
  }
  return checkpoint::save(run_, step, model.views(), optimizer.views(), meta, replicas);
}

void Saving::check_finite(const state::Snapshot& snapshot, std::int64_t step) const {
  if (const auto what = state::first_nonfinite(snapshot))
    throw NonFinite(self_, step, *what + ", no checkpoint of it");
}

void Saving::tell(const CheckpointWriter::Result& result, const Emit& emit) const {
  if (result.failure) {
    if (!skips_) rethrow_nonfinite(result.failure);
    emit(observe::Note{fmt::format("no checkpoint of step {}: {}; the run goes on, the older ones are whole",
                                   result.step, text_of(result.failure))});
  } else if (!result.path.empty()) {
    emit(observe::CheckpointSaved{result.step, result.path.string()});
  } else if (self_ == Rank{0}) {
    emit(observe::Note{fmt::format(
        "no checkpoint of step {}: the disk was not through with the one before it", result.step)});
  }
}

void Saving::report(const Emit& emit) {
  for (const auto& result : writer_.take_results()) tell(result, emit);
}

void Saving::finish(const Emit& emit) {
  writer_.finish();
  const auto results = writer_.take_results();
  for (const auto& result : results) {
    if (result.failure && &result == &results.back()) std::rethrow_exception(result.failure);
    tell(result, emit);
  }
}

bool restore_worker(const std::filesystem::path& step_folder, Rank self, exchange::Replica& replica,
                    const state::Buffers& buffers, state::Differs differs) {
  const bool first = self == Rank{0};
  const auto part = first ? std::nullopt : checkpoint::load_replica(step_folder, to_int(self));
  // Who has no part of its own begins like rank 0. Where replicas do not differ the exchange sees to that.
  if (first || (!part && differs == state::Differs::all)) {
    state::restore(checkpoint::load(step_folder), replica.buckets, replica.tables, buffers, replica.updater,
                   replica.exchange->own_state());
  }
  if (part) state::restore_replica(*part, replica.buckets, replica.tables, buffers, replica.updater);
  return first || part || differs != state::Differs::all;
}

}  // namespace tutti::train
