// What gpus_test.cc takes for NVIDIA's library: a machine with two devices, the second of which tells little.
// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

struct Rates {
  unsigned gpu;
  unsigned memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

static int begun = 0;
static int devices[2];

int nvmlInit_v2() {
  begun = 1;
  return 0;
}
int nvmlShutdown() {
  begun = 0;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return begun ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, Rates* rates) {
  *rates = {93, 40};
  return device == &devices[0] ? 0 : 3;  // not supported
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {100, 100, 0};
  if (device == &devices[0]) *memory = {100, 60, 40};
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
