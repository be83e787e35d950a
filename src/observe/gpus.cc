#include "observe/gpus.h"

#include <dlfcn.h>

#include <vector>

namespace tutti::observe {
namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

struct Gpus::Library {
  // As the library's stable interface has them; 0 is success.
  using Device = void*;
  struct Utilisation {
    unsigned gpu;  // per cent
    unsigned memory;
  };
  struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
  };

  void* handle = nullptr;
  int (*shut_down)() = nullptr;
  int (*utilisation_of)(Device, Utilisation*) = nullptr;
  int (*memory_of)(Device, Memory*) = nullptr;
  std::vector<Device> devices;

  explicit Library(void* opened) : handle(opened) {}
  ~Library() {
    if (shut_down != nullptr) shut_down();
    ::dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void find_devices() {
    const auto initialise = find<int()>(handle, "nvmlInit_v2");
    const auto count_devices = find<int(unsigned*)>(handle, "nvmlDeviceGetCount_v2");
    const auto device_at = find<int(unsigned, Device*)>(handle, "nvmlDeviceGetHandleByIndex_v2");
    utilisation_of = find<int(Device, Utilisation*)>(handle, "nvmlDeviceGetUtilizationRates");
    memory_of = find<int(Device, Memory*)>(handle, "nvmlDeviceGetMemoryInfo");
    if (initialise == nullptr || count_devices == nullptr || device_at == nullptr) return;
    if (utilisation_of == nullptr || memory_of == nullptr || initialise() != 0) return;
    shut_down = find<int()>(handle, "nvmlShutdown");
    unsigned count = 0;
    if (count_devices(&count) != 0) return;
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      if (device_at(i, &device) == 0) devices.push_back(device);
    }
  }
};

Gpus::Gpus(const char* library) {
  if (void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    library_ = std::make_unique<Library>(handle);
    library_->find_devices();
  }
}

Gpus::~Gpus() = default;

nlohmann::json Gpus::sample() const {
  auto all = nlohmann::json::array();
  if (!library_) return all;
  for (const Library::Device device : library_->devices) {
    nlohmann::json one = {{"utilisation", nullptr}, {"memory_bytes", nullptr}};
    Library::Utilisation utilisation{};
    if (library_->utilisation_of(device, &utilisation) == 0) one["utilisation"] = utilisation.gpu / 100.0;
    Library::Memory memory{};
    if (library_->memory_of(device, &memory) == 0) one["memory_bytes"] = memory.used;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace tutti::observe
