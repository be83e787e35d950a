// Study A's conditions, and what its runs come to.
#pragma once

#include "lab/study.h"

namespace tutti::lab::studies {

inline constexpr const char* kLink = "1gbit";
// What one half of a K80 gets of its peak of 2.8 to 4.1 in such networks.
inline constexpr double kDeviceTflops = 1.5;

report::StudyResult conclude_cloud_architectures(const Evidence& evidence);

}  // namespace tutti::lab::studies
