#include "config/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "base/error.h"

namespace tutti::config {
namespace {

// Of MKL, how far its results are the same from run to run.
constexpr const char* kMklMode = "MKL_CBWR";
// Of an OpenBLAS with threads of its own, into how many parts it cuts a product.
constexpr const char* kOpenBlasThreads = "OPENBLAS_NUM_THREADS";

constexpr const char* kKernelVariables[] = {"ATEN_CPU_CAPABILITY",
                                            "DNNL_CPU_ISA_HINTS",
                                            "DNNL_DEFAULT_FPMATH_MODE",
                                            "DNNL_MAX_CPU_ISA",
                                            kMklMode,
                                            "MKL_DEBUG_CPU_TYPE",
                                            "MKL_ENABLE_INSTRUCTIONS",
                                            "ONEDNN_CPU_ISA_HINTS",
                                            "ONEDNN_DEFAULT_FPMATH_MODE",
                                            "ONEDNN_MAX_CPU_ISA",
                                            "OPENBLAS_CORETYPE",
                                            kOpenBlasThreads};

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody here sets the environment
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool can_run(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto cache = variable("XDG_CACHE_HOME")) return std::filesystem::path(*cache) / "tutti";
  if (const auto home = variable("HOME")) return std::filesystem::path(*home) / ".cache" / "tutti";
  return {};
}

std::vector<std::filesystem::path> data_roots() {
  std::vector<std::filesystem::path> roots;
  if (const auto data = variable("TUTTI_DATA")) roots.emplace_back(*data);
  if (const auto cache = cache_folder(); !cache.empty()) roots.push_back(cache);
  roots.emplace_back("/usr/share/datasets");
  return roots;
}

std::filesystem::path data_home() {
  if (const auto data = variable("TUTTI_DATA")) return *data;
  if (auto cache = cache_folder(); !cache.empty()) return cache;
  throw ConfigError("there is no folder for data: set TUTTI_DATA or HOME");
}

bool text_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const auto locale = variable(name)) {
      return locale->find("UTF-8") != std::string::npos || locale->find("utf8") != std::string::npos;
    }
  }
  return false;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (can_run(name)) return name;
    throw ConfigError(fmt::format("cannot run '{}': {}", name,
                                  ::access(name.c_str(), F_OK) == 0
                                      ? "it is no program, or may not be executed"
                                      : "there is no such file"));
  }
  std::istringstream folders(variable("PATH").value_or("/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (can_run(candidate)) return candidate;
  }
  throw ConfigError(fmt::format("cannot run '{}': there is no such program in $PATH", name));
}

SshConnection ssh_connection() {
  SshConnection c;
  std::string port;
  // "client port server port"
  std::istringstream(variable("SSH_CONNECTION").value_or("")) >> c.caller >> port >> c.address;
  return c;
}

std::optional<Placement> placement(const JoinSettings& settings) {
  return find_placement([](const std::string& name) { return variable(name.c_str()); }, settings);
}

std::filesystem::path private_folder() {
  // The variable may come from the host that somebody has logged in to, without its folder.
  const auto runtime = variable("XDG_RUNTIME_DIR");
  std::error_code none;
  if (runtime && std::filesystem::is_directory(*runtime, none))
    return std::filesystem::path(*runtime) / "tutti";
  return fmt::format("/tmp/tutti-{}", ::geteuid());
}

bool has_malloc_settings() {
  return std::ranges::any_of(
      std::array{"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"},
      [](const char* name) { return variable(name).has_value(); });
}

std::vector<std::string> kernel_variables() {
  std::vector<std::string> set;
  for (const char* name : kKernelVariables) {
    if (const auto value = variable(name)) set.push_back(fmt::format("{}={}", name, *value));
  }
  return set;
}

std::vector<std::string> reproducible_kernels(bool has_mkl, int threads) {
  auto kernels = kernel_variables();
  if (!variable(kOpenBlasThreads)) kernels.push_back(fmt::format("{}={}", kOpenBlasThreads, threads));
  if (has_mkl && !variable(kMklMode)) kernels.push_back(fmt::format("{}=AUTO,STRICT", kMklMode));
  return kernels;
}

std::vector<std::string> only_kernels(std::vector<std::string> kernels) {
  for (const std::string name : kKernelVariables) {
    const auto gives = [&](const std::string& k) { return k.starts_with(name + '='); };
    if (std::ranges::none_of(kernels, gives)) kernels.push_back(name);
  }
  return kernels;
}

std::optional<int> omp_threads() {
  const auto text = variable("OMP_NUM_THREADS");
  if (!text) return std::nullopt;
  const int threads = std::atoi(text->c_str());
  return threads > 0 ? std::optional(threads) : std::nullopt;
}

}  // namespace tutti::config
