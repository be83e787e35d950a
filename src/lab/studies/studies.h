// Each study is a file of its own.
#pragma once

#include "lab/study.h"

namespace tutti::lab::studies {

Study cloud_architectures();
Study mpi_mnist();
Study deepfam();
Study rnn();
Study horovod_ray();
Study parallax_lm();

}  // namespace tutti::lab::studies
