// VGG with 16 or 19 layers (Simonyan and Zisserman 2014), in torchvision's form and names.
//
//   3x3 convolutions in five stages of 64, 128, 256, 512, 512 channels, each ended by a 2x2 pool: 224 ->
//   7x7x512
//   -> dense 4096 -> dense 4096 -> classes, ReLU after every layer but the last, dropout 0.5 after the dense.
//
// The form for 32x32 is the one that pruning and optimizer studies use (Zagoruyko 2015; Li et al. 2017):
// batch norm after each convolution, as Liu and Deng 2015 found it needs, five stages down to 1x1x512 and one
// dense layer. Its names are those of torchvision's vgg16_bn and vgg19_bn.
#pragma once

#include "models/model.h"

namespace tutti::models {

// `layers` is 16 or 19.
ModelInfo vgg(int layers);
ModelInfo vgg_cifar(int layers);

}  // namespace tutti::models
