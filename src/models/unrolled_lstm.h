// An LSTM over a whole sequence as one function with a backward pass of its own.
//
// libtorch unrolls torch::nn::LSTM on a processor into single operators, so that backward makes a product and
// a sum as large as the weights in every step of the sequence: with 32 samples and weights of 17 MB it moves
// memory more than it computes. Here the weights' gradients are one product each, over all steps together.
#pragma once

#include <torch/nn.h>

namespace tutti::models {

// What `lstm`, of one layer in one direction, makes of `inputs`, steps x samples x features, from a state of
// zeros: its outputs at all steps. Values and gradients are those of torch::nn::LSTM but for roundings; under
// autocast it is called itself.
torch::Tensor unrolled_lstm(torch::nn::LSTM& lstm, const torch::Tensor& inputs);

}  // namespace tutti::models
