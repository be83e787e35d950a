// The accelerators of this machine, by NVIDIA's management library where it is installed; no dependency.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

namespace tutti::observe {

class Gpus {
 public:
  // Without the library, or where it finds nothing, there are none.
  explicit Gpus(const char* library = "libnvidia-ml.so.1");
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  // Of each: {"utilisation": 0.93, "memory_bytes": 1073741824}, the part of the last moments (the driver's
  // choice, up to a second) in which it computed and what is allocated on it, by whomever. Null for what it
  // does not tell.
  nlohmann::json sample() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace tutti::observe
