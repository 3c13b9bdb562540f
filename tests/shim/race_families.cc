#include "race_families.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace gpuman::race {
namespace {

using base::Result;

constexpr std::array<std::pair<const char*, Family>, 8> kNames{{{"malloc", Family::kMalloc},
                                                                {"pitch", Family::kPitch},
                                                                {"managed", Family::kManaged},
                                                                {"async", Family::kAsync},
                                                                {"pool", Family::kPool},
                                                                {"vmm", Family::kVmm},
                                                                {"array", Family::kArray},
                                                                {"mipmap", Family::kMipmap}}};
constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;
constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;  // of managed memory, at most
constexpr std::uint64_t kTexel = 16;
constexpr std::uint64_t kWidth = 1024;  // texels of an array

std::atomic<std::uint64_t> managed{0};

std::uint64_t NameOf(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

template <typename Handle>
Handle HandleOf(std::uint64_t name) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(name));
}

abi::CUmemAllocationProp OnDevice() {
  abi::CUmemAllocationProp wanted{};
  wanted.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return wanted;
}

}  // namespace

std::vector<Family> AllFamilies() {
  std::vector<Family> all;
  all.reserve(kNames.size());
  for (const auto& entry : kNames) all.push_back(entry.second);
  return all;
}

std::optional<Family> FamilyOf(const std::string& name) {
  for (const auto& [known, family] : kNames) {
    if (name == known) return family;
  }
  return std::nullopt;
}

Result<> Taker::Open() {
  GPUMAN_TRY(cuda_.Invoke("cuStreamCreate", calls().cuStreamCreate, &stream_,
                          static_cast<unsigned>(abi::CU_STREAM_NON_BLOCKING)));
  abi::CUmemPoolProps wanted{};
  wanted.allocType = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return cuda_.Invoke("cuMemPoolCreate", calls().cuMemPoolCreate, &pool_, &wanted);
}

Result<> Taker::Close() {
  GPUMAN_TRY(cuda_.Invoke("cuStreamSynchronize", calls().cuStreamSynchronize, stream_));
  GPUMAN_TRY(cuda_.Invoke("cuMemPoolDestroy", calls().cuMemPoolDestroy, pool_));
  return cuda_.Invoke("cuStreamDestroy", calls().cuStreamDestroy_v2, stream_);
}

Result<std::uint64_t> Taker::TakeManaged(std::uint64_t bytes) {
  if (managed.fetch_add(bytes) + bytes > kMaxManaged) {
    managed -= bytes;
    return base::Fail(base::ErrorCode::kExhausted, "enough of managed memory");
  }
  abi::CUdeviceptr address = 0;
  const auto taken = cuda_.Invoke("cuMemAllocManaged", calls().cuMemAllocManaged, &address,
                                  std::size_t{bytes}, static_cast<unsigned>(abi::CU_MEM_ATTACH_GLOBAL));
  if (!taken) {
    managed -= bytes;
    return base::Fail(taken.error());
  }
  // The memory moves to the device when a kernel touches it there.
  GPUMAN_TRY(cuda_.Invoke("cuMemsetD8Async", calls().cuMemsetD8Async, address, static_cast<unsigned char>(1),
                          std::size_t{bytes}, stream_));
  return address;
}

Result<> Taker::TakeVmm(Block& block) {
  const abi::CUmemAllocationProp wanted = OnDevice();
  abi::CUmemGenericAllocationHandle handle = 0;
  GPUMAN_TRY(
      cuda_.Invoke("cuMemCreate", calls().cuMemCreate, &handle, std::size_t{block.bytes}, &wanted, 0ull));
  abi::CUdeviceptr address = 0;
  GPUMAN_TRY(cuda_.Invoke("cuMemAddressReserve", calls().cuMemAddressReserve, &address,
                          std::size_t{block.bytes}, std::size_t{0}, 0ull, 0ull));
  GPUMAN_TRY(cuda_.Invoke("cuMemMap", calls().cuMemMap, address, std::size_t{block.bytes}, std::size_t{0},
                          handle, 0ull));
  block.name = address;
  block.handle = handle;
  return {};
}

Result<std::uint64_t> Taker::TakeArray(std::uint64_t bytes, bool mipmapped) {
  const std::uint64_t height = std::clamp<std::uint64_t>(bytes / (kWidth * kTexel), 1, 16384);
  if (mipmapped) {
    const abi::CUDA_ARRAY3D_DESCRIPTOR wanted{kWidth, height, 0, abi::CU_AD_FORMAT_UNSIGNED_INT32, 4, 0};
    abi::CUmipmappedArray array = nullptr;
    GPUMAN_TRY(cuda_.Invoke("cuMipmappedArrayCreate", calls().cuMipmappedArrayCreate, &array, &wanted, 3u));
    return NameOf(array);
  }
  const abi::CUDA_ARRAY_DESCRIPTOR wanted{kWidth, height, abi::CU_AD_FORMAT_UNSIGNED_INT32, 4};
  abi::CUarray array = nullptr;
  GPUMAN_TRY(cuda_.Invoke("cuArrayCreate", calls().cuArrayCreate_v2, &array, &wanted));
  return NameOf(array);
}

Result<Block> Taker::Take(Family family, std::uint64_t bytes) {
  Block block{family, 0, 0, bytes};
  abi::CUdeviceptr address = 0;
  std::size_t pitch = 0;
  switch (family) {
    case Family::kMalloc:
      GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls().cuMemAlloc_v2, &address, std::size_t{bytes}));
      break;
    case Family::kPitch:
      GPUMAN_TRY(cuda_.Invoke("cuMemAllocPitch", calls().cuMemAllocPitch_v2, &address, &pitch,
                              std::size_t{4000}, std::size_t{bytes / 4000 + 1}, 8u));
      break;
    case Family::kManaged: {
      block.bytes = std::min(bytes, kPiece);
      GPUMAN_ASSIGN(address, TakeManaged(block.bytes));
      break;
    }
    case Family::kAsync:
      GPUMAN_TRY(
          cuda_.Invoke("cuMemAllocAsync", calls().cuMemAllocAsync, &address, std::size_t{bytes}, stream_));
      break;
    case Family::kPool:
      GPUMAN_TRY(cuda_.Invoke("cuMemAllocFromPoolAsync", calls().cuMemAllocFromPoolAsync, &address,
                              std::size_t{bytes}, pool_, stream_));
      break;
    case Family::kVmm:
      block.bytes = (bytes + kGranule - 1) / kGranule * kGranule;
      GPUMAN_TRY(TakeVmm(block));
      return block;
    case Family::kArray:
    case Family::kMipmap: {
      GPUMAN_ASSIGN(block.name, TakeArray(bytes, family == Family::kMipmap));
      return block;
    }
  }
  block.name = address;
  return block;
}

Result<> Taker::Give(const Block& block) {
  switch (block.family) {
    case Family::kManaged:
      GPUMAN_TRY(cuda_.Invoke("cuStreamSynchronize", calls().cuStreamSynchronize, stream_));
      GPUMAN_TRY(cuda_.Invoke("cuMemFree", calls().cuMemFree_v2, block.name));
      managed -= block.bytes;
      return {};
    case Family::kMalloc:
    case Family::kPitch:
      return cuda_.Invoke("cuMemFree", calls().cuMemFree_v2, block.name);
    case Family::kAsync:
    case Family::kPool:
      GPUMAN_TRY(cuda_.Invoke("cuMemFreeAsync", calls().cuMemFreeAsync, block.name, stream_));
      return cuda_.Invoke("cuStreamSynchronize", calls().cuStreamSynchronize, stream_);
    case Family::kVmm:
      GPUMAN_TRY(cuda_.Invoke("cuMemUnmap", calls().cuMemUnmap, block.name, std::size_t{block.bytes}));
      GPUMAN_TRY(cuda_.Invoke("cuMemRelease", calls().cuMemRelease, block.handle));
      return cuda_.Invoke("cuMemAddressFree", calls().cuMemAddressFree, block.name, std::size_t{block.bytes});
    case Family::kArray:
      return cuda_.Invoke("cuArrayDestroy", calls().cuArrayDestroy, HandleOf<abi::CUarray>(block.name));
    case Family::kMipmap:
      return cuda_.Invoke("cuMipmappedArrayDestroy", calls().cuMipmappedArrayDestroy,
                          HandleOf<abi::CUmipmappedArray>(block.name));
  }
  return {};
}

}  // namespace gpuman::race
