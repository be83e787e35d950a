// Workers and servers as threads of a test, trained on noise, and a plain reference.
#pragma once

#include <barrier>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "net/inproc.h"
#include "optim/step.h"
#include "ps/piece_client.h"
#include "ps/server.h"

namespace tutti::ps::fixture {

inline constexpr auto kPatience = std::chrono::seconds(60);
inline constexpr std::size_t kPieceBytes = 256;
inline const std::vector<std::size_t> kBuckets = {301, 17, 128, 1000};
inline const nlohmann::json kModel = {{"weights", {1446}, "float32"}};
inline const Contents kContents{.model = kModel, .buckets = kBuckets, .piece_bytes = kPieceBytes};

inline float noise(std::uint64_t worker, std::uint64_t step, std::uint64_t i) {
  SplitMix64 random(mix_seed({worker, step, i}));
  return static_cast<float>(random.below(2001)) * 1e-3F - 1.0F;
}

// A worker's buckets, where peers can read them if there is such a place.
struct Buckets {
  explicit Buckets(net::Transport& t) {
    const std::size_t total = 1446;
    auto* memory = t.peer_memory();
    own.resize(total * 2);
    std::span<float> all(own);
    if (memory != nullptr) {
      const auto arena = memory->arena(t.rank());
      all = {reinterpret_cast<float*>(arena.data()), total * 2};
    }
    std::size_t at = 0;
    for (const std::size_t n : kBuckets) {
      views.push_back({all.subspan(at, n), all.subspan(total + at, n), all.subspan(at, n)});
      at += n;
    }
    for (std::size_t b = 0; b < views.size(); ++b) {
      for (std::size_t i = 0; i < views[b].parameters.size(); ++i) views[b].parameters[i] = noise(99, b, i);
    }
  }
  std::vector<float> flat() const {
    std::vector<float> all;
    for (const auto& v : views) all.insert(all.end(), v.parameters.begin(), v.parameters.end());
    return all;
  }
  void set_gradients(int worker, int step) const {
    std::size_t at = 0;
    for (const auto& v : views) {
      for (float& g : v.gradients)
        g = noise(static_cast<std::uint64_t>(worker), static_cast<std::uint64_t>(step), at++);
    }
  }
  std::vector<float> own;
  std::vector<ClientBucket> views;
};

// Everything in one place, in double: the mean of the workers' gradients, the textbook's rule.
inline std::vector<float> reference(const optim::Settings& s, int workers, int steps) {
  std::vector<double> p, m, v;
  for (std::size_t b = 0; b < kBuckets.size(); ++b) {
    for (std::size_t i = 0; i < kBuckets[b]; ++i) p.push_back(noise(99, b, i));
  }
  m.resize(p.size());
  v.resize(p.size());
  for (int t = 1; t <= steps; ++t) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = 0;
      for (int w = 0; w < workers; ++w)
        g += noise(static_cast<std::uint64_t>(w), static_cast<std::uint64_t>(t), i);
      g /= workers;
      switch (s.kind) {
        case optim::Kind::sgd:
          p[i] -= s.lr * g;
          break;
        case optim::Kind::momentum:
          m[i] = optim::momentum_of(s) * m[i] + g;
          p[i] -= s.lr * m[i];
          break;
        case optim::Kind::adam:
          m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
          v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
          p[i] -= s.lr * (m[i] / (1 - std::pow(s.beta1, t))) /
                  (std::sqrt(v[i] / (1 - std::pow(s.beta2, t))) + 1e-8);
          break;
        default:
          v[i] += g * g;
          p[i] -= s.lr * g / (std::sqrt(v[i]) + 1e-10);
      }
    }
  }
  return {p.begin(), p.end()};
}

struct Outcome {
  std::vector<std::vector<float>> replicas;  // by worker
  std::vector<ServerReport> servers;
};

// Trains on noise: every worker makes `steps` steps, or as many as the servers still take. At the end all
// have what the servers have.
inline Outcome train(net::Medium medium, const ServerOptions& o, int steps,
                     const std::function<std::unique_ptr<net::Transport>(net::Transport&)>& wrap = nullptr) {
  Outcome outcome;
  outcome.replicas.resize(static_cast<std::size_t>(o.workers));
  outcome.servers.resize(static_cast<std::size_t>(o.servers));
  std::barrier started(o.workers);  // and ended
  net::run_as_threads(medium, o.workers + o.servers, kPatience, [&](net::Transport& plain) {
    const int rank = to_int(plain.rank());
    if (rank >= o.workers) {
      outcome.servers[static_cast<std::size_t>(rank - o.workers)] = serve(plain, o);
      return;
    }
    const auto wrapped = wrap ? wrap(plain) : nullptr;
    net::Transport& t = wrapped ? *wrapped : plain;
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (rank == 0) pieces.start(0, {});
    started.arrive_and_wait();
    for (int step = 1; step <= steps; ++step) {
      buckets.set_gradients(rank, step);
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.push(b, o.optimizer.lr);
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
    }
    connection.leave();
    started.arrive_and_wait();
    pieces.pull();
    outcome.replicas[static_cast<std::size_t>(rank)] = buckets.flat();
    started.arrive_and_wait();
    connection.say_goodbye();
  });
  return outcome;
}

// Another transport, unless told otherwise.
class Passing : public net::Transport {
 public:
  explicit Passing(net::Transport& inner) : inner_(inner) {}
  Rank rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }
  Rank in_job(Rank rank) const override { return inner_.in_job(rank); }
  const net::StatusBoard& board() const override { return inner_.board(); }
  net::PeerMemory* peer_memory() override { return inner_.peer_memory(); }
  void cancel() override { inner_.cancel(); }
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const net::Activity& doing) override {
    return inner_.wait_for_any(peers, at_most, doing);
  }

 protected:
  net::Transport& inner_;
};

inline std::optional<Verb> verb_of(std::span<const std::byte> message) {
  if (message.size() != sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, message.data(), sizeof header);
  return header.verb;
}

// Notes answers that were read from a server before it was known to have begun one.
class Listener final : public Passing {
 public:
  using Passing::Passing;
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const net::Activity& doing) override {
    speaks_ = inner_.wait_for_any(peers, at_most, doing);
    return speaks_;
  }
  void transfer(std::span<const net::Outgoing> out, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    if (!in.empty() && in[0].into.size() == sizeof(Header)) blind_ += speaks_ != in[0].from;
    inner_.transfer(out, in, doing);
  }
  int take_blind() { return std::exchange(blind_, 0); }

 private:
  std::optional<Rank> speaks_;
  int blind_ = 0;
};

}  // namespace tutti::ps::fixture
