# Writes a ctest file with one test a suite of a GoogleTest program, those of many tests first.
#
#   cmake -DPROGRAM=build/net_test -DLABEL=unit -DOUT=build/net_test_suites.cmake -P cmake/list_suites.cmake

execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(name ${PROGRAM} NAME)
string(REPLACE "\n" ";" lines "${listing}")
set(suites)
foreach(line IN LISTS lines)
  # "All/Servers." or "Ring/0.  # TypeParam = ..."; tests are indented.
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.( |$)")
    set(suite ${CMAKE_MATCH_1})
    list(APPEND suites ${suite})
    set(tests_of_${suite} 0)
  elseif(line MATCHES "^  ")
    math(EXPR tests_of_${suite} "${tests_of_${suite}} + 1")
  endif()
endforeach()
if(NOT suites)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()

set(text "")
foreach(suite IN LISTS suites)
  set(test "[==[${name} ${suite}]==]")
  string(APPEND text "add_test(${test} [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
    "set_tests_properties(${test} PROPERTIES LABELS ${LABEL} TIMEOUT 600 COST ${tests_of_${suite}})\n")
endforeach()
file(WRITE ${OUT} "${text}")
