#include "shim/accounting/arrays.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr std::uint64_t kPitch = 512;  // of a row of an array and of cuMemAllocPitch (measured)

std::uint64_t BytesOfTexel(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  switch (shape.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return shape.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2u * shape.NumChannels;
    default:
      return 4u * shape.NumChannels;  // no plain format has more
  }
}

std::uint64_t Times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

std::uint64_t AtLeastOne(std::uint64_t value) { return value == 0 ? 1 : value; }

std::uint64_t LevelBytes(std::uint64_t width, std::uint64_t height, std::uint64_t depth,
                         std::uint64_t texel) {
  const std::uint64_t row = Times(width, texel);
  return Times(height == 0 ? row : RoundUp(row, kPitch), Times(AtLeastOne(height), AtLeastOne(depth)));
}

}  // namespace

std::uint64_t ArrayBytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  const bool layered = (shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  std::uint64_t width = shape.Width, height = shape.Height, depth = shape.Depth, sum = 0;
  for (unsigned level = 0; level < levels && level < 32; ++level) {
    const std::uint64_t bytes = LevelBytes(width, height, depth, BytesOfTexel(shape));
    sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
    width = AtLeastOne(width / 2);
    if (height != 0) height = AtLeastOne(height / 2);
    if (depth != 0 && !layered) depth = AtLeastOne(depth / 2);
  }
  return sum;
}

bool Arrays::Add(std::uint64_t handle, const ArrayEntry& array, std::uint64_t& cost) {
  ArrayEntry* const entry = entries_.Insert(handle);
  if (entry == nullptr) return false;
  *entry = array;
  cost = RoundUp(array.bytes, array.granule);
  if (array.bytes > kLargestSmall) return true;
  const std::uint64_t before = small_[array.device];
  small_[array.device] += array.bytes;
  cost = RoundUp(before + array.bytes, array.granule) - RoundUp(before, array.granule);
  return true;
}

void Arrays::PutBack(std::uint64_t handle, const ArrayEntry& array) {
  if (ArrayEntry* const entry = entries_.Insert(handle)) *entry = array;
}

std::uint64_t Arrays::Freed(const ArrayEntry& array) {
  if (array.bytes > kLargestSmall) return RoundUp(array.bytes, array.granule);
  const std::uint64_t before = small_[array.device];
  small_[array.device] -= array.bytes;
  return RoundUp(before, array.granule) - RoundUp(small_[array.device], array.granule);
}

bool Arrays::TakeOneOf(std::uint64_t context, ArrayEntry& array) {
  std::uint64_t handle = 0;
  entries_.ForEach([&](std::uint64_t key, const ArrayEntry& entry) {
    if (entry.context == context) handle = key;
  });
  return handle != 0 && entries_.Take(handle, array);
}

}  // namespace gpuman::shim
