// How the files of a data set become samples.
//
//   sources            as people have them: gzipped, text, one file for several parts
//      | prepare       once on a host, by the launcher, which finds all that is wrong
//   plain files        numbers that any process maps as they are: sources themselves or memory without a name
//      | open          in every process; decodes only the samples that it is asked for
//   samples
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/plain_file.h"
#include "data/samples.h"

namespace tutti::data {

enum class Part : std::size_t { training, test };
inline constexpr Part kParts[] = {Part::training, Part::test};

// The files that each part is made of, in order.
class PartFiles {
 public:
  std::vector<std::string>& operator[](Part part) { return files_[static_cast<std::size_t>(part)]; }
  const std::vector<std::string>& operator[](Part part) const {
    return files_[static_cast<std::size_t>(part)];
  }
  bool operator==(const PartFiles&) const = default;

 private:
  std::array<std::vector<std::string>, 2> files_;
};

// Files that can be mapped as they are. Those in memory are called "/proc/self/fd/N": good in this process,
// and in children that inherit N, for as long as `keep_open` lives.
struct PlainFiles {
  PartFiles files;
  std::vector<UniqueFd> keep_open;

  void add(Part part, PlainFile file);
};

// Has no state that changes, so any number of threads may share one.
class Format {
 public:
  virtual ~Format() = default;

  // The fields as the files have them. Where only a file knows a number (how many words a text has), and
  // `sources` are empty, it is 0. Throws DataError.
  virtual std::vector<Field> native_fields(const PartFiles& sources) const = 0;

  // Whether samples can be given these fields, whatever the files hold.
  virtual bool can_give(const std::vector<Field>& wanted) const = 0;

  // Reads and checks all sources. What is worth keeping for the next time goes to the folder `cache`, unless
  // it is empty or cannot be written. Throws DataError with the file and the place in it.
  virtual PlainFiles prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                             const std::filesystem::path& cache) const = 0;

  // The samples of one part, from plain files that were prepared for the same fields.
  virtual std::unique_ptr<Samples> open(std::span<const std::string> files,
                                        const std::vector<Field>& wanted) const = 0;
};

// A format that knows what its classes, or its words, are called.
class Names {
 public:
  virtual ~Names() = default;
  // In the order of their numbers. Throws DataError.
  virtual std::vector<std::string> names(const PartFiles& sources) const = 0;
};

// "image 1x28x28, label below 10".
std::string text_of(const std::vector<Field>& fields);

}  // namespace tutti::data
