#include "train/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <future>

#include "base/error.h"

namespace tutti::train {
namespace {

// A write that waits until the test lets it.
struct Held {
  std::promise<void> begun;
  std::promise<void> go;
  CheckpointWriter::Write write() {
    return [this, wait = go.get_future().share()](const std::atomic<bool>&) {
      begun.set_value();
      wait.wait();
      return std::filesystem::path("held");
    };
  }
};

CheckpointWriter::Write plain(const char* path) {
  return [path](const std::atomic<bool>&) { return std::filesystem::path(path); };
}

TEST(CheckpointWriter, WritesWhileTheCallerGoesOn) {
  CheckpointWriter writer;
  Held slow;
  writer.post(5, 1, slow.write());
  slow.begun.get_future().wait();  // the caller is here, and the write is not over
  EXPECT_TRUE(writer.take_results().empty());
  slow.go.set_value();
  writer.finish();
  const auto results = writer.take_results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].step, 5);
  EXPECT_EQ(results[0].path, "held");
  EXPECT_TRUE(writer.take_results().empty());
}

TEST(CheckpointWriter, SmallCheckpointsWaitForTheDiskAndAreAllWritten) {
  CheckpointWriter writer;
  Held slow;
  writer.post(1, 1, slow.write());
  slow.begun.get_future().wait();
  for (int step = 2; step <= 9; ++step) writer.post(step, 1000, plain("x"));
  slow.go.set_value();
  writer.finish();
  for (const auto& r : writer.take_results()) EXPECT_FALSE(r.path.empty()) << r.step;
}

TEST(CheckpointWriter, LargeCheckpointTakesThePlaceOfOneThatHasNotBegun) {
  constexpr std::size_t kLarge = CheckpointWriter::kMostBehind / 2 + 1;
  CheckpointWriter writer;
  Held slow;
  writer.post(1, 1, slow.write());
  slow.begun.get_future().wait();
  writer.post(2, kLarge, plain("second"));
  writer.post(3, kLarge, plain("third"));
  slow.go.set_value();
  writer.finish();
  std::vector<std::int64_t> written;
  std::vector<std::int64_t> left_out;
  for (const auto& r : writer.take_results()) (r.path.empty() ? left_out : written).push_back(r.step);
  EXPECT_EQ(written, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(left_out, std::vector<std::int64_t>{2});
}

TEST(CheckpointWriter, NeededCheckpointsAreAllWritten) {
  CheckpointWriter writer;
  for (int step = 1; step <= 10; ++step) writer.post(step, 1, plain("x"), true);
  writer.finish();
  EXPECT_EQ(writer.take_results().size(), 10U);
}

TEST(CheckpointWriter, FailureIsAResultAndTheNextIsWritten) {
  CheckpointWriter writer;
  writer.post(
      1, 1, [](const std::atomic<bool>&) -> std::filesystem::path { throw RunError("no space left"); }, true);
  writer.post(2, 1, plain("second"), true);
  writer.finish();
  const auto results = writer.take_results();
  ASSERT_EQ(results.size(), 2U);
  ASSERT_TRUE(results[0].failure);
  EXPECT_THROW(std::rethrow_exception(results[0].failure), RunError);
  EXPECT_FALSE(results[1].failure);
}

TEST(CheckpointWriter, EndTellsAWriteThatWaitsForOthers) {
  std::promise<void> begun;
  bool told = false;
  {
    CheckpointWriter writer;
    writer.post(1, 1, [&](const std::atomic<bool>& stopped) {
      begun.set_value();
      while (!stopped) std::this_thread::yield();
      told = true;
      return std::filesystem::path();
    });
    begun.get_future().wait();
  }  // returns, though nobody else ever came
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace tutti::train
