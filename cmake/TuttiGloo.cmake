# Sets TUTTI_HAVE_GLOO where libtorch has c10d's ProcessGroupGloo inside, and TUTTI_GLOO_FOLDERS to what its header needs
# beside libtorch's own: Gloo's headers where they are installed, else the few names of them in cmake/gloo_names.

include(CheckIncludeFileCXX)
include(CheckCXXSourceCompiles)
check_include_file_cxx(gloo/rendezvous/store.h TUTTI_HAVE_GLOO_HEADERS)
set(TUTTI_GLOO_FOLDERS)
if(NOT TUTTI_HAVE_GLOO_HEADERS)
  set(TUTTI_GLOO_FOLDERS ${CMAKE_SOURCE_DIR}/cmake/gloo_names)
endif()
# By file, not by target: libtorch 2.x's targets name others (protobuf) that a check's own project does not know. What the
# libraries need in turn is there when the program is linked.
get_target_property(torch_cpu torch_cpu LOCATION)
get_target_property(c10 c10 LOCATION)
set(CMAKE_REQUIRED_INCLUDES ${TUTTI_GLOO_FOLDERS} ${TORCH_INCLUDE_DIRS})
set(CMAKE_REQUIRED_LIBRARIES ${torch_cpu} ${c10})
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,--unresolved-symbols=ignore-in-shared-libs)
check_cxx_source_compiles("
  #ifndef USE_C10D_GLOO
  #define USE_C10D_GLOO
  #endif
  #include <condition_variable>
  #include <mutex>
  #include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
  int main() { return c10d::ProcessGroupGloo::createDeviceForHostname(\"127.0.0.1\") == nullptr; }
  " TUTTI_HAVE_GLOO)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(NOT TUTTI_HAVE_GLOO)
  message(STATUS "libtorch has no Gloo: --engine gloo is left out")
endif()
