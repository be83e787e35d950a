# tutti as others use it: libtutti.so with its headers, for find_package(tutti) and pkg-config, and the program; `cpack`
# makes a Debian package of them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A libtorch outside the system's folders (one that came with Python's torch) is found where it was at build time.
set_target_properties(tutti PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

# The room `library` is its face; of the others it takes what it needs. Only what has TUTTI_API can be seen from outside.
add_library(tutti_shared SHARED $<TARGET_OBJECTS:tutti_library>)
target_link_libraries(tutti_shared PRIVATE tutti_state tutti_exchange tutti_joining tutti_launch tutti_config PUBLIC torch ${TORCH_LIBRARIES})
target_compile_features(tutti_shared PUBLIC cxx_std_20)
target_include_directories(tutti_shared INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Before 1.0 a minor version may change anything.
set_target_properties(tutti_shared PROPERTIES OUTPUT_NAME tutti EXPORT_NAME tutti
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH_USE_LINK_PATH ON)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(TARGETS tutti_shared EXPORT tutti LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tutti RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tutti NAMESPACE tutti:: DESTINATION ${package} FILE tuttiTargets.cmake)
configure_package_config_file(cmake/tuttiConfig.cmake.in tuttiConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tuttiConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/tuttiConfigVersion.cmake
  DESTINATION ${package})
set(torch_includes)
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  string(APPEND torch_includes "-I${folder} ")
endforeach()
# Nobody else tells a linker where a libtorch outside the system's folders is.
set(torch_folder)
get_filename_component(folder ${TORCH_LIBRARY} DIRECTORY)
if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
  set(torch_folder "-L${folder} -Wl,-rpath,${folder} ")
endif()
# Debian's library folder under /usr has two levels.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" to_prefix ${to_prefix})
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_CONTACT "tutti's engineers <tutti@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Distributed training of neural networks on libtorch: library and program")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libtorch-dev")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
include(CPack)
