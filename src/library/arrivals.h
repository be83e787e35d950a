// Which gradients this process has brought to a step, or to a shard of it.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "grad/buckets.h"
#include "grad/tables.h"

namespace tutti::library {

// One thread uses it. Buckets and tables outlive it.
class Arrivals {
 public:
  Arrivals(const grad::Buckets& buckets, const grad::Tables& tables)
      : buckets_(buckets),
        tables_(tables),
        of_parameters_(buckets.parameter_count()),
        of_tables_(tables.size()) {}

  const std::string& name_of(grad::ParamId id) const { return buckets_.name_of(id); }
  const std::string& name_of(std::size_t table) const { return tables_.name(table); }

  bool has(grad::ParamId id) const { return of_parameters_[static_cast<std::size_t>(grad::to_int(id))]; }
  bool has(std::size_t table) const { return of_tables_[table]; }

  void add(grad::ParamId id) { of_parameters_[static_cast<std::size_t>(grad::to_int(id))] = true; }
  void add(std::size_t table) { of_tables_[table] = true; }

  // What has left must not change; nor what has not, so that a program is refused at every number of
  // processes. Throws ConfigError, which says in `where` there must be but one: "step; ..." and what to do.
  template <typename Id>
  void require_first(Id id, const char* where) const {
    if (!has(id)) return;
    throw ConfigError(
        fmt::format("{} has got a second gradient in one {} each backward pass, or hold a no_sync() in all "
                    "but the last",
                    name_of(id), where));
  }

  // Another step, or shard, begins.
  void clear() {
    of_parameters_.assign(of_parameters_.size(), false);
    of_tables_.assign(of_tables_.size(), false);
  }

 private:
  const grad::Buckets& buckets_;
  const grad::Tables& tables_;
  std::vector<bool> of_parameters_;
  std::vector<bool> of_tables_;
};

}  // namespace tutti::library
