// What plugins for another tutti (KIND 1) or another libtorch (KIND 2) tell of themselves; any other library
// tells nothing.
struct Description {
  int interface_version;
  const char* torch_version;
};

#if KIND > 0
extern "C" __attribute__((visibility("default"))) const Description* tutti_plugin() {
  static const Description mine = {KIND == 1 ? 0 : 1, KIND == 1 ? "" : "9.9.9"};
  return &mine;
}
#endif
