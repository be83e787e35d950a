# libtorch as one target, tutti_torch, and rooms that see it.

find_package(Torch REQUIRED)
# The compiler's own default, said once more: headers that were compiled without it would not be used.
foreach(target torch torch_library)
  set(options)
  if(TARGET ${target})
    get_target_property(options ${target} INTERFACE_COMPILE_OPTIONS)
  endif()
  if(options)
    list(REMOVE_ITEM options -D_GLIBCXX_USE_CXX11_ABI=1)
    set_target_properties(${target} PROPERTIES INTERFACE_COMPILE_OPTIONS "${options}")
  endif()
endforeach()
add_library(tutti_torch INTERFACE)
target_link_libraries(tutti_torch INTERFACE tutti_flags torch ${TORCH_LIBRARIES} fmt::fmt)
# Newer libtorch brings its own fmt headers, which hide the system's from these rooms; compiled in place they need no
# library of the same version. That costs three seconds a file, so only where it is so.
get_target_property(fmt_folders fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  file(REAL_PATH ${folder} folder)
  if(EXISTS ${folder}/fmt/format.h AND NOT folder IN_LIST fmt_folders)
    target_compile_definitions(tutti_torch INTERFACE FMT_HEADER_ONLY)
  endif()
endforeach()

# What most files need of libtorch. The whole of it, <torch/torch.h>, takes twice as long, in every unit again: templates
# that the headers use are instantiated at the end of each.
set(TUTTI_HEADERS_TORCH <torch/autograd.h> <torch/nn/module.h> <torch/optim/optimizer.h> ${TUTTI_HEADERS_COMMON})
set(TUTTI_HEADERS_TORCH_TEST <torch/torch.h> ${TUTTI_HEADERS_COMMON_TEST})

# A room whose files nearly all see libtorch: as tutti_room, but in fewer and larger units, because the headers alone take
# seconds. Loading libtorch takes nearly half a second, longer than most tests: they run by suite.
function(tutti_torch_room room)
  tutti_room(${room} BY_SUITE ${ARGN} LIBRARIES tutti_torch HEADERS TORCH)
  set_target_properties(tutti_${room} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
endfunction()
