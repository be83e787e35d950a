// tutti_torch._C: how Python makes a backend.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>

#include "backend.h"

namespace tutti::torch_backend {
namespace {

// As Python owns it: whoever lets go of it holds the interpreter's lock, for which callbacks may wait.
class PythonBackend final : public TuttiBackend {
 public:
  using TuttiBackend::TuttiBackend;
  ~PythonBackend() override {
    std::optional<pybind11::gil_scoped_release> released;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released.emplace();
    close();
  }
};

}  // namespace
}  // namespace tutti::torch_backend

PYBIND11_MODULE(_C, module) {
  using tutti::torch_backend::BackendBase;
  using tutti::torch_backend::PythonBackend;
  module.def(
      "create",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
         std::chrono::milliseconds timeout) {
        return c10::intrusive_ptr<BackendBase>(
            c10::make_intrusive<PythonBackend>(store, rank, size, timeout));
      },
      pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"), pybind11::arg("timeout"),
      pybind11::call_guard<pybind11::gil_scoped_release>());
}
