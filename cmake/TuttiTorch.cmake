# libtorch as one target, tutti_torch, with its headers precompiled once and shared by every room that sees it.

find_package(Torch REQUIRED)
add_library(tutti_torch STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc)
target_link_libraries(tutti_torch PUBLIC tutti_flags torch ${TORCH_LIBRARIES})
# Newer libtorch brings its own fmt headers, which hide the system's from these rooms; compiled in place they need no
# library of the same version.
target_compile_definitions(tutti_torch PUBLIC FMT_HEADER_ONLY)
target_precompile_headers(tutti_torch PRIVATE <torch/torch.h>)

# A room that sees libtorch: as tutti_room, with the precompiled header.
function(tutti_torch_room room)
  tutti_room(${room} ${ARGN} LIBRARIES tutti_torch)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBRARIES;TESTS;MULTIPROC" ${ARGN})
  set(targets tutti_${room})
  if(GTest_FOUND)
    foreach(source IN LISTS ARG_TESTS ARG_MULTIPROC)
      get_filename_component(stem ${source} NAME_WE)
      list(APPEND targets ${room}_${stem})
    endforeach()
  endif()
  foreach(target IN LISTS targets)
    target_precompile_headers(${target} REUSE_FROM tutti_torch)
  endforeach()
endfunction()
