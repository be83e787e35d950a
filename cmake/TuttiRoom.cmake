# One room = one folder = one static library tutti_<room> = one namespace tutti::<room>.
#
#   tutti_room(net SOURCES a.cc b.cc DEPS base TESTS a_test.cc MULTIPROC b_multiproc_test.cc LIBRARIES fmt::fmt)
#
# ALONE are files whose local names are those of others, too: they are not compiled together with them (CMAKE_UNITY_BUILD).
# DEPS are rooms, and are checked against script/rooms.txt by script/check-rooms; LIBRARIES come from outside.
# TESTS become one program, net_test, and run with label "unit"; MULTIPROC net_multiproc_test, with label "multiproc".

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
target_include_directories(tutti_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(TUTTI_SANITIZE)
  target_compile_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
  target_compile_definitions(tutti_flags INTERFACE TUTTI_SANITIZED=1)
endif()

# Tests spend their time in what they test: optimising them fully costs a third of their compilation for nothing.
add_library(tutti_test_flags INTERFACE)
target_compile_options(tutti_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)

# tutti_test(name label [BY_SUITE] SOURCES a_test.cc LIBRARIES tutti_a)
# Every test is a process of its own; with BY_SUITE every suite is one, for programs that take long to start.
function(tutti_test name label)
  cmake_parse_arguments(ARG "BY_SUITE" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} tutti_test_flags GTest::gtest GTest::gtest_main)
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

# tutti_fuzz(room name...): name_fuzz.cc becomes fuzz_name, a libFuzzer program, where TUTTI_FUZZ asks for them.
function(tutti_fuzz room)
  if(TUTTI_FUZZ)
    foreach(name IN LISTS ARGN)
      add_executable(fuzz_${name} ${name}_fuzz.cc)
      target_link_libraries(fuzz_${name} PRIVATE tutti_${room})
      target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
      set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
      add_dependencies(fuzzers fuzz_${name})
    endforeach()
  endif()
endfunction()

function(tutti_room room)
  cmake_parse_arguments(ARG "BY_SUITE" "" "SOURCES;DEPS;LIBRARIES;TESTS;MULTIPROC;ALONE" ${ARGN})
  set(by_suite)
  if(ARG_BY_SUITE)
    set(by_suite BY_SUITE)
  endif()
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(target tutti_${room})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_link_libraries(${target} PUBLIC tutti_flags ${ARG_LIBRARIES})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PUBLIC tutti_${dep})
  endforeach()
  if(GTest_FOUND AND ARG_TESTS)
    tutti_test(${room}_test unit ${by_suite} SOURCES ${ARG_TESTS} LIBRARIES ${target})
  endif()
  if(GTest_FOUND AND ARG_MULTIPROC)
    tutti_test(${room}_multiproc_test multiproc SOURCES ${ARG_MULTIPROC} LIBRARIES ${target})
  endif()
endfunction()
