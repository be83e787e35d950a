#include "exchange/departures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <span>
#include <stdexcept>

namespace tutti::exchange {
namespace {

// Four layers of a parameter each; the last two belong to the first phase. Every parameter has a bucket.
struct FourLayers : torch::nn::Module {
  FourLayers() {
    for (const char* name : {"b0", "b1", "a0", "a1"}) register_parameter(name, torch::zeros({64}));
  }
};

class DeparturesTest : public ::testing::Test {
 protected:
  // Says that all gradients of a bucket are final.
  bool fill(std::size_t bucket) {
    bool full = false;
    for (const auto& slice : buckets_.layout(bucket).slices) full = departures_.arrived(slice.param);
    return full;
  }
  auto note() {
    return [this](std::size_t bucket) { left_.push_back(bucket); };
  }

  FourLayers model_;
  std::list<std::vector<float>> memory_;
  grad::Buckets buckets_{model_,
                         1,
                         [this](std::size_t bytes) {
                           return std::as_writable_bytes(std::span(memory_.emplace_back(bytes / 4)));
                         },
                         {},
                         {"a", ""}};
  Departures departures_{buckets_};
  std::vector<std::size_t> left_;
};

using Order = std::vector<std::size_t>;

TEST_F(DeparturesTest, ABucketThatIsFullWaitsForThoseBeforeIt) {
  ASSERT_EQ(buckets_.size(), 4U);
  EXPECT_TRUE(fill(1));
  departures_.leave_full(note());
  EXPECT_EQ(left_, Order{});
  EXPECT_TRUE(fill(0));
  departures_.leave_full(note());
  EXPECT_EQ(left_, (Order{0, 1}));
  EXPECT_EQ(departures_.next(), 2U);
}

TEST_F(DeparturesTest, TheEndOfAPhaseTakesItsBucketsAlongFullOrNotAndNoOthers) {
  ASSERT_EQ(buckets_.layout(1).phase, 0U);
  ASSERT_EQ(buckets_.layout(2).phase, 1U);
  fill(0);
  departures_.leave_full(note());
  departures_.leave_phase(0, note());
  EXPECT_EQ(left_, (Order{0, 1}));
  departures_.leave_phase(0, note());
  EXPECT_EQ(left_, (Order{0, 1})) << "each once";
  departures_.leave_rest(note());
  EXPECT_EQ(left_, (Order{0, 1, 2, 3}));
}

TEST_F(DeparturesTest, ABucketThatCouldNotLeaveIsStillNext) {
  fill(0);
  const auto refuse = [](std::size_t) { throw std::runtime_error("no"); };
  EXPECT_THROW(departures_.leave_full(refuse), std::runtime_error);
  EXPECT_EQ(departures_.next(), 0U);
  departures_.leave_full(note());
  EXPECT_EQ(left_, Order{0});
}

TEST_F(DeparturesTest, AnotherStepBeginsWithEmptyBuckets) {
  fill(1);
  departures_.leave_rest(note());
  departures_.reset();
  left_.clear();
  EXPECT_EQ(departures_.next(), 0U);
  fill(0);
  departures_.leave_full(note());
  EXPECT_EQ(left_, Order{0}) << "bucket 1 was full a step ago";
}

}  // namespace
}  // namespace tutti::exchange
