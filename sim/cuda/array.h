// Arrays: memory with a shape, which copies address by coordinates. Rows follow each other, padded to a
// pitch; so do layers.
#pragma once

#include <memory>
#include <vector>

#include "sim/cuda/context.h"
#include "sim/cuda/physical.h"

namespace gpuman::sim::cuda {

class Driver;

struct Array {
  std::shared_ptr<Context> context;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  std::uint64_t row_bytes = 0;  // of the elements, without padding
  std::uint64_t pitch = 0;
  std::uint64_t rows = 1;
  std::uint64_t slices = 1;
  std::uint64_t address = 0;      // of the first element
  std::shared_ptr<void> storage;  // frees the memory; levels of one mipmapped array share it
  bool level = false;             // belongs to a mipmapped array
};

struct MipmappedArray {
  std::shared_ptr<Context> context;
  std::vector<std::shared_ptr<Array>> levels;
};

}  // namespace gpuman::sim::cuda
