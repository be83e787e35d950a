# One room = one folder = one static library tutti_<room> = one namespace tutti::<room>.
#
#   tutti_room(net DEPS base LIBRARIES Boost::headers)
#
# A room finds its files by itself, by their names:
#   x_test.cc            becomes a part of net_test, which runs with label "unit";
#   x_multiproc_test.cc  of net_multiproc_test, with label "multiproc";
#   x_fuzz.cc            becomes fuzz_x, a libFuzzer program, where TUTTI_FUZZ asks for them;
#   x_fixture.cc         is for a test that builds it itself;
#   every other .cc      is a part of the library.
#
# DEPS are rooms, and are checked against script/rooms.txt by script/check-rooms; LIBRARIES come from outside; GENERATED are
# sources that the build writes. EXCEPT are files that the room does not take. ALONE are files that are not compiled
# together with others (CMAKE_UNITY_BUILD): their local names are those of others, too, or src/cli/extending_test.py puts
# another in their place. COLD: it starts processes or writes pages, so that optimising it fully would be a third of its
# compilation for nothing. HEADERS is the kind of precompiled headers that the room uses, COMMON (the default) or TORCH. A
# file with flags of its own has SKIP_PRECOMPILE_HEADERS.

find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TUTTI_CCACHE})
endif()

add_library(tutti_flags INTERFACE)
target_compile_features(tutti_flags INTERFACE cxx_std_20)
target_compile_options(tutti_flags INTERFACE -Wall -Wextra -Wno-psabi $<$<BOOL:${TUTTI_WERROR}>:-Werror>)
# g++ 12 sees overlapping copies in `"text" + string` (its bug 105329).
target_compile_options(tutti_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Compiled together, a file looks to the compiler like a header that others include, too.
target_compile_options(tutti_flags INTERFACE $<$<BOOL:${CMAKE_UNITY_BUILD}>:-Wno-subobject-linkage>)
target_include_directories(tutti_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
if(TUTTI_SANITIZE)
  target_compile_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
  target_compile_definitions(tutti_flags INTERFACE TUTTI_SANITIZED=1)
endif()

# Tests spend their time in what they test: optimising them fully costs a third of their compilation for nothing.
add_library(tutti_test_flags INTERFACE)
target_compile_options(tutti_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)
# Headers are compiled once for tests, plugins and examples, so all of them have the flags of each.
target_compile_options(tutti_test_flags INTERFACE
  -fPIC $<$<TARGET_EXISTS:GTest::gtest>:$<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>>)

# Headers that are compiled once: for all rooms of a kind by the first of them, and with GoogleTest's for their tests.
set(TUTTI_HEADERS_COMMON <algorithm> <filesystem> <fmt/format.h> <functional> <map> <nlohmann/json.hpp> <optional> <span>
  <string> <vector>)
set(TUTTI_HEADERS_COMMON_TEST ${TUTTI_HEADERS_COMMON} <gtest/gtest.h>)
function(tutti_precompile target kind)
  get_property(first GLOBAL PROPERTY tutti_precompiled_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_link_libraries(${target} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(${target} PRIVATE ${TUTTI_HEADERS_${kind}})
    set_property(GLOBAL PROPERTY tutti_precompiled_${kind} ${target})
  endif()
endfunction()

# tutti_test(name label [BY_SUITE] SOURCES a_test.cc LIBRARIES tutti_a [HEADERS COMMON|TORCH])
# Every test is a process of its own; with BY_SUITE every suite is one, for programs that take long to start.
function(tutti_test name label)
  cmake_parse_arguments(ARG "BY_SUITE" "HEADERS" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} tutti_test_flags GTest::gtest GTest::gtest_main)
  if(ARG_HEADERS)
    tutti_precompile(${name} ${ARG_HEADERS}_TEST)
  endif()
  if(NOT ARG_BY_SUITE)
    gtest_discover_tests(${name} PROPERTIES LABELS ${label} TIMEOUT 300 DISCOVERY_TIMEOUT 60)
    return()
  endif()
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  if(NOT EXISTS ${suites})
    file(WRITE ${suites} "add_test(${name}_NOT_BUILT ${name})\n")
  endif()
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM COMMAND ${CMAKE_COMMAND}
    -DPROGRAM=$<TARGET_FILE:${name}> -DLABEL=${label} -DOUT=${suites} -P ${CMAKE_SOURCE_DIR}/cmake/list_suites.cmake)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
endfunction()

function(tutti_room room)
  cmake_parse_arguments(ARG "BY_SUITE;COLD" "HEADERS" "DEPS;LIBRARIES;GENERATED;EXCEPT;ALONE" ${ARGN})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS COMMON)
  endif()
  file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc */*.cc)
  list(REMOVE_ITEM files "" ${ARG_EXCEPT})
  foreach(kind multiproc_test test fuzz fixture)
    set(${kind}_files ${files})
    list(FILTER ${kind}_files INCLUDE REGEX "_${kind}\\.cc$")
    list(FILTER files EXCLUDE REGEX "_${kind}\\.cc$")
  endforeach()
  set_source_files_properties(${ARG_ALONE} ${ARG_GENERATED} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

  set(target tutti_${room})
  add_library(${target} STATIC ${files} ${ARG_GENERATED})
  target_link_libraries(${target} PUBLIC tutti_flags ${ARG_LIBRARIES})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  tutti_precompile(${target} ${ARG_HEADERS})
  if(ARG_COLD)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PUBLIC tutti_${dep})
  endforeach()

  if(GTest_FOUND AND test_files)
    set(by_suite)
    if(ARG_BY_SUITE)
      set(by_suite BY_SUITE)
    endif()
    tutti_test(${room}_test unit ${by_suite} SOURCES ${test_files} LIBRARIES ${target} HEADERS ${ARG_HEADERS})
  endif()
  if(GTest_FOUND AND multiproc_test_files)
    tutti_test(${room}_multiproc_test multiproc SOURCES ${multiproc_test_files} LIBRARIES ${target} HEADERS ${ARG_HEADERS})
  endif()
  if(TUTTI_FUZZ)
    foreach(file IN LISTS fuzz_files)
      string(REPLACE "_fuzz.cc" "" name ${file})
      add_executable(fuzz_${name} ${file})
      target_link_libraries(fuzz_${name} PRIVATE ${target})
      target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
      set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
      add_dependencies(fuzzers fuzz_${name})
    endforeach()
  endif()
endfunction()
