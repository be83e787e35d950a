// MobileNetV2 (Sandler et al. 2018), in torchvision's form and names.
//
//   224 -3x3/2-> 112x32 -> 112x16 -> 56x24 -> 28x32 -> 14x64 -> 14x96 -> 7x160 -> 7x320 -1x1-> 7x1280
//   -mean, dropout 0.2-> dense to the classes
//
//   block:  x -1x1-> t c -3x3, each channel apart-> t c -1x1-> d --+->     batch norm after each convolution,
//           x ------------- where the shape stays ----------------+       ReLU6 after the first two
//
// The form for 32x32 has stride 1 in the first layer and in the first block that has stride 2, as usual for
// CIFAR: 32x32x32 -> 32x16 -> 32x24 -> 16x32 -> 8x64 -> 8x96 -> 4x160 -> 4x320.
#pragma once

#include "models/model.h"

namespace tutti::models {

ModelInfo mobilenetv2();
ModelInfo mobilenetv2_cifar();

}  // namespace tutti::models
