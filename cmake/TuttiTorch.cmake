# libtorch as one target, tutti_torch, with its headers precompiled once and shared by every room that sees it.

find_package(Torch REQUIRED)
add_library(tutti_torch STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc)
target_link_libraries(tutti_torch PUBLIC tutti_flags torch ${TORCH_LIBRARIES})
target_precompile_headers(tutti_torch PRIVATE <torch/torch.h>)
