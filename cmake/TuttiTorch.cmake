# libtorch as one target, tutti_torch, with its headers precompiled once for the rooms that see it and once for their tests.

find_package(Torch REQUIRED)
add_library(tutti_torch STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc)
target_link_libraries(tutti_torch PUBLIC tutti_flags torch ${TORCH_LIBRARIES} fmt::fmt)
# Newer libtorch brings its own fmt headers, which hide the system's from these rooms; compiled in place they need no
# library of the same version. That costs three seconds a file, so only where it is so.
get_target_property(fmt_folders fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  file(REAL_PATH ${folder} folder)
  if(EXISTS ${folder}/fmt/format.h AND NOT folder IN_LIST fmt_folders)
    target_compile_definitions(tutti_torch PUBLIC FMT_HEADER_ONLY)
  endif()
endforeach()
set_target_properties(tutti_torch PROPERTIES POSITION_INDEPENDENT_CODE ON)  # as the rooms, which use these headers
target_precompile_headers(tutti_torch PRIVATE <torch/torch.h> <fmt/format.h>)

if(GTest_FOUND)
  add_library(tutti_torch_test STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc)
  target_link_libraries(tutti_torch_test PRIVATE tutti_torch tutti_test_flags GTest::gtest)
  target_precompile_headers(tutti_torch_test PRIVATE <torch/torch.h> <fmt/format.h> <gtest/gtest.h>)
endif()

# A room whose files nearly all see libtorch: as tutti_room, with the precompiled headers. Loading libtorch takes nearly
# half a second, longer than most tests: they run by suite.
function(tutti_torch_room room)
  tutti_room(${room} BY_SUITE ${ARGN} LIBRARIES tutti_torch)
  target_precompile_headers(tutti_${room} REUSE_FROM tutti_torch)
  if(TARGET ${room}_test)
    target_precompile_headers(${room}_test REUSE_FROM tutti_torch_test)
  endif()
endfunction()
