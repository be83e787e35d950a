// Residual networks of bottleneck blocks with 50 or 152 layers (He et al. 2015), in torchvision's form and
// names: the stride is in a block's 3x3 convolution.
//
//   224 -7x7/2-> 112x64 -pool/2-> 56 -layer1-> 56x256 -layer2-> 28x512 -layer3-> 14x1024 -layer4-> 7x2048
//   -mean-> 2048 -dense-> classes
//
//   block:  x -1x1-> c -3x3-> c -1x1-> 4c --+-> ReLU      batch norm after each convolution; where the shape
//           x ----------------------------- +              changes, a 1x1 convolution is in the lower way
//
// The form for 32x32 begins with a 3x3 convolution of stride 1 and has no pool, as He et al. begin theirs for
// CIFAR-10.
#pragma once

#include "models/model.h"

namespace tutti::models {

// `layers` is 50 or 152.
ModelInfo resnet(int layers);
ModelInfo resnet_cifar(int layers);

}  // namespace tutti::models
