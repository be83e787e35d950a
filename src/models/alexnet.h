// AlexNet as one tower (Krizhevsky 2014, "One weird trick"), in torchvision's form and names.
//
//   224 -11x11/4-> 55x64 -pool-> 27 -5x5-> 192 -pool-> 13 -3x3-> 384 -3x3-> 256 -3x3-> 256 -pool-> 6x6x256
//   -> dense 4096 -> dense 4096 -> classes, ReLU after every layer but the last, dropout 0.5 before the
//   dense.
//
// For 32x32 the first layer and the pools would leave nothing. There, as usual for CIFAR, the first layer is
// 3x3 with stride 2 and each pool 2x2; everything between them stays:
//
//   32 -3x3/2-> 16x64 -pool-> 8 -5x5-> 192 -pool-> 4 -3x3-> 384 -3x3-> 256 -3x3-> 256 -pool-> 2x2x256 -> ...
#pragma once

#include "models/model.h"

namespace tutti::models {

ModelInfo alexnet();
ModelInfo alexnet_cifar();

}  // namespace tutti::models
