// Each study is a file of its own.
#pragma once

#include "lab/study.h"

namespace tutti::lab::studies {

#define TUTTI_STUDY(name) Study name();
#include "lab/studies/studies.inc"
#undef TUTTI_STUDY

}  // namespace tutti::lab::studies
