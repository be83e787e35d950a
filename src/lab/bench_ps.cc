#include "lab/bench_ps.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/large_pages.h"
#include "base/random.h"
#include "collectives/native.h"
#include "net/group.h"
#include "ps/piece_client.h"
#include "ps/row_client.h"
#include "train/measure.h"

namespace tutti::lab {
namespace {

using collectives::ReduceOp;

constexpr int kWarmUp = 3;
constexpr double kSecondsARow = 0.5;

float gradient_at(int worker, std::size_t i) {
  return static_cast<float>(static_cast<int>(i & 7) + worker);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::span<float> as_floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// One core's, over buffers of this size.
double memcpy_rate(std::size_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    seconds.push_back(seconds_since(begin));
    from[static_cast<std::size_t>(i) % bytes] = to[bytes / 2];  // keeps both alive
  }
  return static_cast<double>(bytes) / train::quantile(seconds, 0.5);
}

// As many rounds as were asked for, or as fit if one takes `pilot` seconds; the same on every worker.
int choose_rounds(collectives::Collectives& workers, const BenchPsSpec& spec, double pilot) {
  workers.all_reduce({&pilot, 1, DType::f64}, ReduceOp::max, "pilot");
  if (spec.iterations > 0) return spec.iterations;
  return static_cast<int>(std::clamp(kSecondsARow / std::max(pilot, 1e-9), 10.0, 2000.0));
}

class Worker {
 public:
  Worker(net::Transport& everyone, collectives::Collectives& workers, const ps::ServerOptions& options,
         std::uint64_t bytes, std::size_t piece_bytes)
      : workers_(workers),
        parameters_(bytes / sizeof(float)),
        gradients_(as_floats(workers.allocate(bytes))),
        connection_(everyone, options,
                    {.model = {{"benchmark", {parameters_.size()}, "float32"}},
                     .buckets = {parameters_.size()},
                     .piece_bytes = piece_bytes > 0 ? piece_bytes : ps::usual_piece_bytes(everyone)}),
        pieces_(connection_, {{parameters_, gradients_, parameters_}}) {
    if (workers_.rank() == Rank{0}) pieces_.start(0, {});
    workers_.barrier("benchmark");
    pieces_.pull();
  }

  void finish() {
    workers_.barrier("benchmark");
    connection_.leave();
    connection_.say_goodbye();
  }

  // The slowest worker's median over rounds of `timed`, which follows a fresh gradient and a barrier.
  template <typename Timed>
  double median(int iterations, const Timed& timed) {
    std::vector<double> seconds;
    for (int i = 0; i < iterations; ++i) {
      for (std::size_t k = 0; k < gradients_.size(); ++k)
        gradients_[k] = gradient_at(to_int(workers_.rank()), k);
      workers_.barrier("benchmark");
      const auto begin = Clock::now();
      timed();
      seconds.push_back(seconds_since(begin));
    }
    workers_.all_reduce({seconds.data(), seconds.size(), DType::f64}, ReduceOp::max, "times");
    return train::quantile(seconds, 0.5);
  }

  void push(ps::Reply answering) {
    pieces_.push(0, 1.0, answering);
    pieces_.wait(0);
    ++rounds_;
  }

  void pull() { pieces_.pull(); }

  void verify() {
    pieces_.pull();
    const auto mean = static_cast<float>(workers_.world() - 1) / 2;
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      wrong += parameters_[k] != -static_cast<float>(rounds_) * (static_cast<float>(k & 7) + mean);
    }
    if (wrong > 0) {
      throw RunError(
          fmt::format("after {} rounds {} of {} parameters are wrong", rounds_, wrong, parameters_.size()));
    }
    verified_ = rounds_;
  }

  bool verified() const { return verified_ == rounds_; }

 private:
  collectives::Collectives& workers_;
  std::vector<float> parameters_;
  std::span<float> gradients_;
  ps::Connection connection_;
  ps::PieceClient pieces_;
  int rounds_ = 0;
  int verified_ = -1;  // of these rounds
};

// A worker whose steps touch a few rows of one table: the same on every worker, so that their mean is known.
class RowWorker {
 public:
  RowWorker(net::Transport& everyone, collectives::Collectives& workers, const ps::ServerOptions& options,
            const BenchPsSpec& spec)
      : workers_(workers),
        shape_{"table", spec.table_rows, spec.table_width},
        table_(zeros_in_large_pages(shape_.rows * shape_.width)),
        touched_(shape_.rows),
        connection_(everyone, options, {.tables = {shape_}, .partitions = spec.partitions}),
        rows_(connection_, {{table_, as_floats(workers.allocate(table_.size() * sizeof(float)))}}) {
    if (workers_.rank() == Rank{0}) rows_.start(0, {});
    workers_.barrier("benchmark");
  }

  void finish() {
    workers_.barrier("benchmark");
    connection_.leave();
    connection_.say_goodbye();
  }

  // Medians over rounds of a step: push the gradients of some rows, pull the rows of the next.
  double median(int iterations, std::size_t rows) {
    std::vector<double> seconds;
    for (int i = 0; i < iterations; ++i) {
      auto touched = make_gradients(rows);
      const auto next = pick_rows(rows, step_ + 1);
      workers_.barrier("benchmark");
      const auto sent = connection_.bytes_sent();
      const auto begin = Clock::now();
      rows_.push(0, {std::move(touched)}, 1.0);
      rows_.expect(0, next);
      rows_.wait();
      rows_.pull(0, next);
      rows_.wait();
      seconds.push_back(seconds_since(begin));
      bytes_a_step_ = connection_.bytes_sent() - sent;
      ++step_;
    }
    workers_.all_reduce({seconds.data(), seconds.size(), DType::f64}, ReduceOp::max, "times");
    return train::quantile(seconds, 0.5);
  }

  void verify() {
    rows_.pull_all();
    const auto mean = static_cast<float>(workers_.world() - 1) / 2;
    std::size_t wrong = 0;
    std::vector<std::int64_t> rows(shape_.rows);
    std::iota(rows.begin(), rows.end(), 0);
    const auto places = rows_.places_of(0, rows);
    for (std::size_t r = 0; r < shape_.rows; ++r) {
      for (std::size_t k = 0; k < shape_.width; ++k) {
        const float expected = -static_cast<float>(touched_[places[r]]) * (static_cast<float>(k & 7) + mean);
        wrong += table_[r * shape_.width + k] != expected;
      }
    }
    if (wrong > 0)
      throw RunError(fmt::format("{} of {} numbers of the table are wrong", wrong, table_.size()));
    verified_ = step_;
  }

  bool verified() const { return verified_ == step_; }
  std::uint64_t bytes_a_step() const { return bytes_a_step_; }

 private:
  // The place of one row in each of `count` equal stretches: distinct, rising, scattered.
  std::vector<std::uint32_t> pick_rows(std::size_t count, std::uint64_t step) const {
    std::vector<std::uint32_t> rows;
    SplitMix64 random(step);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t first = shape_.rows * i / count;
      const std::size_t last = shape_.rows * (i + 1) / count;
      rows.push_back(static_cast<std::uint32_t>(first + random.below(last - first)));
    }
    return rows;
  }

  std::vector<std::uint32_t> make_gradients(std::size_t count) {
    auto rows = pick_rows(count, step_);
    float* gradient = rows_.gradients(0).data();
    for (const std::uint32_t row : rows) {
      ++touched_[row];
      for (std::size_t k = 0; k < shape_.width; ++k) *gradient++ = gradient_at(to_int(workers_.rank()), k);
    }
    return rows;
  }

  collectives::Collectives& workers_;
  const ps::TableShape shape_;
  std::vector<float> table_;
  std::vector<int> touched_;  // steps, by place
  ps::Connection connection_;
  ps::RowClient rows_;
  std::uint64_t step_ = 1;
  std::uint64_t verified_ = 0;  // before this step
  std::uint64_t bytes_a_step_ = 0;
};

ps::ServerOptions options_of(const BenchPsSpec& spec) {
  return {.workers = spec.workers,
          .first_server = spec.workers,
          .servers = spec.servers,
          .policy = {.workers = spec.workers},
          .timeout = std::chrono::milliseconds(spec.timeout_ms)};
}

// What every row says.
nlohmann::json row_of(const BenchPsSpec& spec, const char* what, std::uint64_t bytes, double seconds,
                      int iterations, bool verified) {
  return {{"bytes", bytes},
          {"seconds", seconds},
          {"ranks", spec.workers + spec.servers},
          {"workers", spec.workers},
          {"servers", spec.servers},
          {"transport", spec.transport},
          {"wire", spec.wire},
          {"algorithm", what},
          {"iterations", iterations},
          {"verified", verified},
          {"bytes_per_second", static_cast<double>(bytes) / seconds}};
}

void add_rows(nlohmann::json& rows, Worker& worker, collectives::Collectives& workers,
              const BenchPsSpec& spec, std::uint64_t bytes) {
  const double copy_rate = memcpy_rate(bytes);
  const auto row = [&](const char* what, const auto& timed) {
    const double pilot = worker.median(kWarmUp, timed);
    const int iterations = choose_rounds(workers, spec, pilot);
    const double seconds = worker.median(iterations, timed);
    worker.verify();
    auto line = row_of(spec, what, bytes, seconds, iterations, worker.verified());
    line["memcpy_bytes_per_second"] = copy_rate;
    rows.push_back(std::move(line));
  };
  row("push", [&] { worker.push(ps::Reply::acknowledgement); });
  row("pull", [&] { worker.pull(); });
  row("push+pull", [&] { worker.push(ps::Reply::parameters); });
}

void add_table_rows(nlohmann::json& rows, net::Transport& everyone, collectives::Collectives& workers,
                    const BenchPsSpec& spec) {
  const std::uint64_t bytes = spec.table_rows * spec.table_width * sizeof(float);
  const auto options = options_of(spec);
  {
    Worker whole(everyone, workers, options, bytes, spec.piece_bytes);
    const auto step = [&] { whole.push(ps::Reply::parameters); };
    const int iterations = choose_rounds(workers, spec, whole.median(kWarmUp, step));
    const double seconds = whole.median(iterations, step);
    whole.verify();
    whole.finish();
    rows.push_back(row_of(spec, "dense table", bytes, seconds, iterations, whole.verified()));
  }
  const auto touched =
      std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(spec.table_rows) * spec.touch));
  RowWorker few(everyone, workers, options, spec);
  const int iterations = choose_rounds(workers, spec, few.median(kWarmUp, touched));
  const double seconds = few.median(iterations, touched);
  few.verify();
  few.finish();
  auto line = row_of(spec, "sparse table", bytes, seconds, iterations, few.verified());
  line["touched_rows"] = touched;
  line["bytes_sent"] = few.bytes_a_step();
  rows.push_back(std::move(line));
}

}  // namespace

nlohmann::json bench_ps(net::Transport& everyone, const BenchPsSpec& spec) {
  const auto options = options_of(spec);
  if (to_int(everyone.rank()) >= spec.workers) {
    const std::size_t sessions = spec.sizes.size() + (spec.table_rows > 0 ? 2 : 0);
    for (std::size_t i = 0; i < sessions; ++i) ps::serve(everyone, options);
    return nullptr;
  }
  net::Group group(everyone, spec.workers);
  collectives::NativeEngine workers(group);
  auto rows = nlohmann::json::array();
  for (const std::uint64_t bytes : spec.sizes) {
    Worker worker(everyone, workers, options, bytes, spec.piece_bytes);
    add_rows(rows, worker, workers, spec, bytes);
    worker.finish();
  }
  if (spec.table_rows > 0) add_table_rows(rows, everyone, workers, spec);
  return to_int(everyone.rank()) == 0 ? rows : nullptr;
}

}  // namespace tutti::lab
