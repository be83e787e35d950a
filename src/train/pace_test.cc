#include "train/pace.h"

#include <gtest/gtest.h>

#include <list>
#include <thread>

namespace tutti::train {
namespace {

using std::chrono::milliseconds;

struct TwoLayers : torch::nn::Module {
  torch::nn::Linear below{register_module("below", torch::nn::Linear(3, 2))};
  torch::nn::Linear above{register_module("above", torch::nn::Linear(2, 2))};
};

// Gradients of the layer above come after a third of the rehearsal, those of the layer below after two
// thirds.
TEST(Pacer, HandsOutGradientsAtThePointsOfTheStepThatTheRehearsalHad) {
  TwoLayers model;
  std::list<std::vector<float>> memory;
  grad::Buckets buckets(model, 1 << 20, [&](std::size_t bytes) {
    return std::as_writable_bytes(std::span(memory.emplace_back(bytes / sizeof(float))));
  });
  const grad::Tables no_tables;
  const auto step = milliseconds(90);
  Pacer pacer(buckets, no_tables, step, 7);
  const std::vector<int> order = {3, 2, 1, 0};
  EXPECT_FALSE(pacer.rehearsed());
  const auto rehearsal = Clock::now();
  pacer.begin_rehearsal();
  EXPECT_TRUE(pacer.rehearsing());
  for (const int id : order) {
    if (id % 2 == 1) std::this_thread::sleep_for(milliseconds(30));
    pacer.note(grad::ParamId{id});
  }
  std::this_thread::sleep_for(milliseconds(30));
  pacer.end_rehearsal();
  const double took = std::chrono::duration<double>(Clock::now() - rehearsal).count();
  ASSERT_TRUE(pacer.rehearsed());
  EXPECT_FALSE(pacer.rehearsing());

  std::vector<int> heard;
  int ticks = 0;
  const auto begin = Clock::now();
  pacer.run(
      [&](grad::ParamId id) {
        const double at_least = (to_int(id) >= 2 ? 0.030 : 0.060) / took;
        EXPECT_GE(Clock::now() - begin, step * at_least) << to_int(id);
        heard.push_back(to_int(id));
      },
      [](std::size_t) { FAIL() << "there is no table"; }, [&] { ++ticks; });
  EXPECT_GE(Clock::now() - begin, step);
  EXPECT_EQ(heard, order);
  EXPECT_EQ(ticks, 0) << "nobody wonders about a tenth of a second";
  for (const auto& p : model.parameters()) EXPECT_GT(p.grad().abs().sum().item<float>(), 0);
}

// What the rehearsal's backward gave to a table is what every paced step gives.
TEST(Pacer, HandsOutTheRowsOfTables) {
  struct Words : torch::nn::Module {
    torch::nn::Embedding words{register_module("words", torch::nn::Embedding(10, 2))};
    torch::nn::Linear above{register_module("above", torch::nn::Linear(2, 2))};
  } model;
  std::list<std::vector<float>> memory;
  const std::vector<std::string> names = {"words.weight"};
  const grad::Tables tables(model, names);
  grad::Buckets buckets(
      model, 1 << 20,
      [&](std::size_t bytes) {
        return std::as_writable_bytes(std::span(memory.emplace_back(bytes / sizeof(float))));
      },
      tables);
  Pacer pacer(buckets, tables, milliseconds(1), 7);
  pacer.begin_rehearsal();
  model.words(torch::tensor({3, 5, 3})).sum().backward();
  pacer.note_table(0);
  pacer.end_rehearsal();
  for (int step = 0; step < 2; ++step) {
    int announced = 0;
    pacer.run([](grad::ParamId) {}, [&](std::size_t) { ++announced; }, [] {});
    EXPECT_EQ(announced, 1);
    const auto touched = tables.take_gradient(0);
    EXPECT_TRUE(torch::equal(std::get<0>(torch::_unique(touched.rows)), torch::tensor({3, 5}))) << step;
  }
}

}  // namespace
}  // namespace tutti::train
