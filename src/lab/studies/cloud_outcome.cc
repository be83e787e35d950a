// What study A's runs come to: its claims, tables and figures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/emulation.h"
#include "lab/studies/cloud_architectures.h"
#include "lab/traffic.h"

namespace tutti::lab::studies {
namespace {

constexpr const char* kOneServer = "ps-sync";

struct Network {
  const char* name;
  const char* theirs;
  double megabytes;  // theirs
  double gflops;     // theirs: multiply and add counted as one
};
constexpr Network kNetworks[] = {{"alexnet", "AlexNet", 233, 0.7},
                                 {"vgg16", "VGG16", 528, 15.5},
                                 {"vgg19", "VGG19", 548, 19.6},
                                 {"resnet50", "ResNet50", 98, 3.9},
                                 {"resnet152", "ResNet152", 230, 11.3}};

// Images a second of the median step: the first one is a warm-up.
std::optional<double> images(const Cell* cell) {
  if (cell == nullptr) return std::nullopt;
  const double batch = cell->summary.at("batch_per_worker");
  return batch * cell->workers * 1000 / cell->summary.at("step_ms").at("median").get<double>();
}

// What the link of the one server has sent in a step; start and end, which the schedules tell, are taken off.
double server_bytes_a_step(const Cell& cell) {
  auto shape = shape_of(cell.summary);
  const double steps = static_cast<double>(std::exchange(shape.steps, 0));
  const double all = cell.summary.at("emulated").at("per_host").back().at("bytes_sent");
  return (all - predict_traffic(shape).back().bytes_sent) / steps;
}

double link_rate(const Cell& cell) {
  const auto link = cell.summary.at("emulated").at("link").get<std::string>();
  return payload_rate(static_cast<double>(config::parse_emulation("link=" + link)->bits_per_second));
}

// How long a step takes at least whose model passes the busiest link so many times: a third of the pace is
// the forward pass, in which there is nothing to send.
double bound_ms(const Cell& cell, double passes, double rate) {
  const double exchange = passes * cell.summary.at("parameter_bytes").get<double>() / rate * 1000;
  const double pace = cell.summary.at("pace_ms");
  return std::max(pace, passes > 0 ? pace / 3 + exchange : 0);
}

double ring_bound_ms(const Cell& cell, double rate) {
  return bound_ms(cell, 2.0 * (cell.workers - 1) / cell.workers, rate);
}

std::string range_of(std::vector<double> values, const char* form) {
  const auto [least, most] = std::ranges::minmax(values);
  const auto say = [&](double v) { return fmt::format(fmt::runtime(form), v); };
  return say(least) == say(most) ? say(least) : say(least) + " to " + say(most);
}

class Conclusion {
 public:
  explicit Conclusion(const std::vector<Cell>& cells)
      : cells_(cells), models_(models_of(cells)), workers_(workers_of(cells)), most_(workers_.back()) {}

  report::StudyResult outcome() {
    out_.claims = {levels_off(),   grows_with_workers(), near_proportional(),
                   follows_ring(), near_bound(),         as_predicted()};
    out_.tables = {networks(), speeds(), traffic()};
    for (const auto& model : models_) {
      draw(model, "images/s", [&](const Cell* c) { return images(c); });
      draw_bounds(model);
      draw(model, "speed-up over one worker alone",
           [&](const Cell* c) -> std::optional<double> { return speed_up(c); });
    }
    for (const auto& model : models_) draw_bytes(model);
    return std::move(out_);
  }

 private:
  const Cell* cell(const std::string& model, const std::string& label, int workers) const {
    return find_cell(cells_, {model, label, workers});
  }

  // Over one worker alone, who exchanges nothing: a ring of one.
  std::optional<double> speed_up(const Cell* c) const {
    const auto alone = c == nullptr ? std::nullopt : images(cell(c->model, "ring", 1));
    if (!alone) return std::nullopt;
    return *images(c) / *alone;
  }

  // One figure for each network; nothing where none could be made.
  template <typename Figure>
  std::vector<double> each(const Figure& of) const {
    std::vector<double> all;
    for (const auto& model : models_) {
      if (const std::optional<double> value = of(model)) all.push_back(*value);
    }
    return all;
  }

  static report::Claim judged(report::Claim claim, const std::vector<double>& values, const char* form,
                              const auto& holds) {
    claim.ours = values.empty() ? "" : fmt::format("{} ({})", range_of(values, form), claim.ours);
    if (values.empty()) return claim;
    claim.holds = std::ranges::all_of(values, holds);
    return claim;
  }

  report::Claim levels_off() const {
    const int half = most_ / 2;
    const auto gain = each([&](const std::string& model) -> std::optional<double> {
      const auto few = images(cell(model, kOneServer, half));
      const auto many = images(cell(model, kOneServer, most_));
      if (!few || !many) return std::nullopt;
      return *many / *few;
    });
    return judged(
        {"The parameter server's speed-up levels off",
         "it does (figure 4.3)",
         fmt::format("times the images/s, from {} to {} workers; 2 would be ideal, below 1.25 is level", half,
                     most_),
         {}},
        gain, "{:.2f}", [](double g) { return g < 1.25; });
  }

  report::Claim grows_with_workers() const {
    std::vector<double> off;
    for (const auto& model : models_) {
      const Cell* one = cell(model, kOneServer, 1);
      for (const int n : workers_) {
        const Cell* many = cell(model, kOneServer, n);
        if (n > 1 && one != nullptr && many != nullptr)
          off.push_back(std::abs(server_bytes_a_step(*many) / server_bytes_a_step(*one) / n - 1) * 100);
      }
    }
    return judged({"The server's traffic grows in proportion to the workers (by construction)",
                   "it does (figure 5.1)",
                   "per cent off proportion, in bytes that its link sends in a step; asked: within 5",
                   {}},
                  off, "{:.2f}", [](double o) { return o <= 5; });
  }

  report::Claim near_proportional() const {
    const auto gain = each([&](const std::string& model) { return speed_up(cell(model, "ring", most_)); });
    const auto faster = each([&](const std::string& model) -> std::optional<double> {
      const Cell* c = cell(model, "ring", most_);
      if (c == nullptr) return std::nullopt;
      return most_ * *figure(c, "pace_ms") / ring_bound_ms(*c, payload_rate(1e10));
    });
    return judged(
        {"The ring's speed-up is about proportional to the workers",
         "it is (figure 4.4)",
         fmt::format("times one worker alone with {} workers on links of {}; asked: at least {:.1f}; "
                     "links of 10gbit would allow {}",
                     most_, kLink, 0.8 * most_, faster.empty() ? "-" : range_of(faster, "{:.2f}")),
         {}},
        gain, "{:.2f}", [&](double g) { return g >= 0.8 * most_; });
  }

  report::Claim follows_ring() const {
    std::vector<double> off;
    for (const auto& model : models_) {
      for (const int n : workers_) {
        const Cell* c = cell(model, "ring", n);
        if (c == nullptr || n == 1) continue;
        const double steps = c->summary.at("steps");
        const double expected = 2.0 * (n - 1) / n * c->summary.at("parameter_bytes").get<double>();
        off.push_back(std::abs(c->summary.at("bytes_sent_per_worker").get<double>() / steps / expected - 1) *
                      100);
      }
    }
    return judged(
        {"A worker of a ring sends 2(N-1)/N of the model in a step, however many there are (by construction)",
         "each worker's traffic stays constant",
         "per cent off that; asked: within 3",
         {}},
        off, "{:.2f}", [](double o) { return o <= 3; });
  }

  report::Claim near_bound() const {
    const auto reached = each([&](const std::string& model) -> std::optional<double> {
      const Cell* c = cell(model, "ring", most_);
      if (c == nullptr) return std::nullopt;
      return ring_bound_ms(*c, link_rate(*c)) / c->summary.at("step_ms").at("median").get<double>() * 100;
    });
    return judged({fmt::format("The ring's speed-up at {} workers is what links and pace allow", most_),
                   "",
                   "per cent of what they allow: exchange behind backward, no longer than the links need; "
                   "asked: at least 90",
                   {}},
                  reached, "{:.1f}", [](double r) { return r >= 90; });
  }

  report::Claim as_predicted() const {
    std::vector<double> off;
    for (const Cell& c : cells_) {
      if (c.summary.is_null() || !c.doubt.empty()) continue;
      for (const auto& [bytes, packets] : errors(c)) {
        off.push_back(bytes);
        off.push_back(packets);
      }
    }
    return judged({"Bytes and packets on every link are those that the schedules predict",
                   "",
                   "per cent off, headers and acknowledgements counted; asked: within 5",
                   {}},
                  off, "{:.2f}", [](double o) { return o <= 5; });
  }

  // By host that sends a model: per cent by which its bytes and packets are off.
  static std::vector<std::pair<double, double>> errors(const Cell& c) {
    std::vector<std::pair<double, double>> off;
    const auto predicted = predict_traffic(shape_of(c.summary));
    const auto& hosts = c.summary.at("emulated").at("per_host");
    for (std::size_t h = 0; h < predicted.size(); ++h) {
      // The last of a chain that sends nothing but acknowledgements, or one worker alone, say nothing.
      if (predicted[h].bytes_sent < c.summary.at("parameter_bytes").get<double>()) continue;
      const auto error = [&](const char* key, double expected) {
        return std::abs(hosts.at(h).at(key).get<double>() / expected - 1) * 100;
      };
      off.emplace_back(error("bytes_sent", predicted[h].bytes_sent),
                       error("packets_sent", predicted[h].packets_sent));
    }
    return off;
  }

  report::StudyTable networks() const {
    report::StudyTable t{
        "The networks, theirs beside ours (MB of parameters; GFLOPs forward, a multiply and an "
        "add counted as one)",
        {"network", "MB, theirs", "MB, ours", "GFLOPs, theirs", "pace ms, ours"},
        {}};
    for (const Network& n : kNetworks) {
      const Cell* c = cell(n.name, "ring", 1);
      if (c == nullptr) continue;
      t.rows.push_back({n.theirs, n.megabytes, *figure(c, "parameter_bytes") / 1048576, n.gflops,
                        or_null(figure(c, "pace_ms"))});
    }
    return t;
  }

  report::StudyTable speeds() const {
    report::StudyTable t{
        fmt::format("Images/s, and times one worker alone (figures 4.1 to 4.4 have no numbers; "
                    "paced as a device of {} TFLOPS, emulated links of {})",
                    kDeviceTflops, kLink),
        {"network", "architecture"},
        {}};
    for (const int n : workers_) t.header.push_back(fmt::format("{} worker{}", n, n == 1 ? "" : "s"));
    t.header.push_back(fmt::format("speed-up at {}", most_));
    for (const auto& model : models_) {
      for (const auto& label : labels_of(cells_, model)) {
        std::vector<nlohmann::json> row = {model, label};
        for (const int n : workers_) row.push_back(or_null(images(cell(model, label, n))));
        row.push_back(or_null(speed_up(cell(model, label, most_))));
        t.rows.push_back(std::move(row));
      }
    }
    return t;
  }

  report::StudyTable traffic() const {
    report::StudyTable t{
        "What passed the busiest link in the whole run, beside what the schedules predict "
        "(emulated; figures 4.5 to 5.1)",
        {"network", "architecture", "workers", "MB sent", "predicted", "packets sent", "predicted"},
        {}};
    for (const Cell& c : cells_) {
      if (c.summary.is_null() || !c.doubt.empty() || c.workers != most_) continue;
      const auto predicted = predict_traffic(shape_of(c.summary));
      const auto busiest = std::ranges::max_element(predicted, {}, &HostTraffic::bytes_sent);
      const auto& host =
          c.summary.at("emulated").at("per_host").at(static_cast<std::size_t>(busiest - predicted.begin()));
      t.rows.push_back({c.model, label_of(c), c.workers, host.at("bytes_sent").get<double>() / 1e6,
                        busiest->bytes_sent / 1e6, host.at("packets_sent"),
                        std::round(busiest->packets_sent)});
    }
    return t;
  }

  template <typename Figure>
  void draw(const std::string& model, const char* what, const Figure& of) {
    report::Chart chart{fmt::format("{}: {}", model, what), "workers", what, {}};
    for (const auto& label : labels_of(cells_, model)) {
      report::Line line{label, {}, false};
      for (const int n : workers_) {
        if (const auto y = of(cell(model, label, n))) line.points.emplace_back(n, *y);
      }
      if (!line.points.empty()) chart.lines.push_back(std::move(line));
    }
    if (!chart.lines.empty()) out_.charts.push_back(std::move(chart));
  }

  // The last chart's lines once more, as links and pace allow them.
  void draw_bounds(const std::string& model) {
    if (out_.charts.empty()) return;
    report::Line ring{"what the links allow a ring", {}, true};
    report::Line server{"what they allow one server", {}, true};
    for (const int n : workers_) {
      const auto add = [&](report::Line& line, const Cell* c, double passes) {
        if (c == nullptr) return;
        const double images = *figure(c, "batch_per_worker") * n * 1000;
        line.points.emplace_back(n, images / bound_ms(*c, passes, link_rate(*c)));
      };
      add(ring, cell(model, "ring", n), 2.0 * (n - 1) / n);
      add(server, cell(model, kOneServer, n), n);
    }
    out_.charts.back().lines.insert(out_.charts.back().lines.end(), {ring, server});
  }

  // Theirs is figure 5.1's claim: the server's line rises, a ring worker's stays.
  void draw_bytes(const std::string& model) {
    report::Chart chart{fmt::format("{}: bytes that a node sends in a step", model), "workers", "MB", {}};
    report::Line server{"the one server", {}, false};
    report::Line worker{"a worker of the ring", {}, false};
    report::Line theory{"2(N-1)/N of the model", {}, true};
    for (const int n : workers_) {
      if (const Cell* c = cell(model, kOneServer, n)) {
        server.points.emplace_back(n, server_bytes_a_step(*c) / 1e6);
      }
      if (const Cell* c = cell(model, "ring", n)) {
        worker.points.emplace_back(n, *figure(c, "bytes_sent_per_worker") / *figure(c, "steps") / 1e6);
        theory.points.emplace_back(n, 2.0 * (n - 1) / n * *figure(c, "parameter_bytes") / 1e6);
      }
    }
    chart.lines = {server, worker, theory};
    out_.charts.push_back(std::move(chart));
  }

  const std::vector<Cell>& cells_;
  const std::vector<std::string> models_;
  const std::vector<int> workers_;
  const int most_;
  report::StudyResult out_;
};

}  // namespace

report::StudyResult conclude_cloud_architectures(const Evidence& evidence) {
  return Conclusion(evidence.cells).outcome();
}

}  // namespace tutti::lab::studies
