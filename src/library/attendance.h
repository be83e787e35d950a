// Processes that make different numbers of steps: what each of them does next.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "collectives/native.h"
#include "library/member.h"

namespace tutti::library {

// Who still has samples, and at which rates they learn: told in every step, beside the gradients.
class Attendance {
 public:
  explicit Attendance(Member& member)
      : world_(member.make_world(0)), transport_(world_->take_seat(Rank{member.rank()})), all_(*transport_) {}

  // What a process is about to do.
  enum class Doing { nothing, step, save };
  struct Present {
    int processes = 0;          // make a step
    std::vector<double> rates;  // of the first of them, by group of its optimizer
    int saving = 0;             // processes that save instead
  };
  // `rates` are this process's.
  Present count(Doing mine, const std::vector<double>& rates) {
    const std::size_t width = 1 + rates.size();
    std::vector<double> told(width * static_cast<std::size_t>(all_.world()));
    const auto row = [&](int rank) {
      return std::span(told).subspan(static_cast<std::size_t>(rank) * width, width);
    };
    row(to_int(all_.rank()))[0] = static_cast<double>(mine);
    std::ranges::copy(rates, row(to_int(all_.rank())).begin() + 1);
    all_.all_gather({told.data(), told.size(), DType::f64}, "who has samples");
    Present present;
    for (int r = 0; r < all_.world(); ++r) {
      const auto doing = static_cast<Doing>(row(r)[0]);
      if (doing == Doing::save) ++present.saving;
      if (doing != Doing::step) continue;
      if (++present.processes == 1) present.rates.assign(row(r).begin() + 1, row(r).end());
    }
    return present;
  }

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<net::Transport> transport_;
  collectives::NativeEngine all_;
};

}  // namespace tutti::library
