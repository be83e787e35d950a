// tutti_torch._C: how Python makes a backend.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"

PYBIND11_MODULE(_C, module) {
  using tutti::torch_backend::BackendBase;
  using tutti::torch_backend::TuttiBackend;
  module.def(
      "create",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
         std::chrono::milliseconds timeout) {
        return c10::intrusive_ptr<BackendBase>(c10::make_intrusive<TuttiBackend>(store, rank, size, timeout));
      },
      pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"), pybind11::arg("timeout"),
      pybind11::call_guard<pybind11::gil_scoped_release>());
}
