#include "train/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "base/error.h"

namespace tutti::train {
namespace {

// A weight is cast once a forward pass as it is, so casts are not kept: one that outlives an update is wrong.
void set_autocast(bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_enabled(at::kCPU, on);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
#else
  at::autocast::set_cpu_enabled(on);
  at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
  at::autocast::set_autocast_cache_enabled(!on);
}

}  // namespace

Autocast::Autocast(bool bf16) : on_(bf16) {
  if (on_) set_autocast(true);
}

Autocast::~Autocast() {
  if (on_) set_autocast(false);
}

void refuse_without_kernel(const c10::Error& error, std::string_view model) {
  const std::string_view text = error.what_without_backtrace();
  if (text.find("BFloat16") == std::string_view::npos) return;
  throw ConfigError(fmt::format("--precision bf16: libtorch {} cannot compute {} in it ({}); use fp32",
                                TORCH_VERSION, model, text.substr(0, text.find('\n'))));
}

std::string describe_bf16() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return "bf16, in hardware";
  if (__builtin_cpu_supports("avx512bw")) return "bf16, by AVX-512 without its own instructions";
#endif
  return "bf16 works but is slower than fp32: the processor has no AVX-512";
}

}  // namespace tutti::train
