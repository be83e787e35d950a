#include "train/as_tensors.h"

namespace tutti::train {

models::Batch as_tensors(std::span<const std::span<const std::byte>> fields,
                         const std::vector<Field>& described, std::size_t count, bool channels_last) {
  models::Batch batch;
  for (std::size_t f = 0; f < described.size(); ++f) {
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(count)};
    shape.insert(shape.end(), described[f].shape.begin(), described[f].shape.end());
    auto tensor = torch::from_blob(const_cast<std::byte*>(fields[f].data()), shape,
                                   described[f].type == DType::f32 ? torch::kFloat32 : torch::kInt64);
    if (channels_last && shape.size() == 4) {
      // With one channel both orders are the same bytes; strides alone tell libtorch which kernels to take.
      tensor = shape[1] == 1 ? tensor.as_strided(shape, {shape[2] * shape[3], 1, shape[3], 1})
                             : tensor.contiguous(torch::MemoryFormat::ChannelsLast);
    }
    batch.push_back(tensor);
  }
  return batch;
}

}  // namespace tutti::train
