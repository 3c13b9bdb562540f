// Device memory of each family that a limit counts; one thread takes and frees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/cuda.h"

namespace gpuman::race {

namespace abi = driver::abi;

enum class Family { kMalloc, kPitch, kManaged, kAsync, kPool, kVmm, kArray, kMipmap };

std::vector<Family> AllFamilies();
std::optional<Family> FamilyOf(const std::string& name);

struct Block {
  Family family;
  std::uint64_t name = 0;    // address or handle
  std::uint64_t handle = 0;  // of the memory mapped at the address
  std::uint64_t bytes = 0;   // as requested, rounded up if the family requires it
};

// For one thread, whose context is current. The thread frees everything before it closes the object.
class Taker {
 public:
  explicit Taker(const driver::CudaDriver& cuda) : cuda_(cuda) {}
  base::Result<> Open();
  base::Result<> Close();
  // kExhausted: no room. It takes managed memory in small pieces, and at most this many bytes of it at a time
  // in the whole process: a driver that must page for it can hang the device.
  static constexpr std::uint64_t kMaxManaged = std::uint64_t{256} << 20;
  base::Result<Block> Take(Family family, std::uint64_t bytes);
  base::Result<> Give(const Block& block);

 private:
  const driver::CudaCalls& calls() const { return cuda_.calls(); }
  base::Result<std::uint64_t> TakeManaged(std::uint64_t bytes);
  base::Result<> TakeVmm(Block& block);
  base::Result<std::uint64_t> TakeArray(std::uint64_t bytes, bool mipmapped);

  const driver::CudaDriver& cuda_;
  abi::CUstream stream_ = nullptr;
  abi::CUmemoryPool pool_ = nullptr;
};

}  // namespace gpuman::race
