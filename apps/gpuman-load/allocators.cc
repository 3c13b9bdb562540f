#include "allocators.h"

#include <fmt/format.h>

#include <algorithm>

#include "array_block.h"
#include "pattern.h"

namespace gpuman::load {
namespace {

using base::Bytes;
using base::Result;
namespace abi = driver::abi;

constexpr std::uint64_t kWord = sizeof(std::uint64_t);

// The common part of all kinds whose memory has device addresses. The subclass's destructor frees the memory.
class AddressedBlock : public Block {
 public:
  AddressedBlock(Session& session, Region region, Bytes size)
      : session_(session), region_(region), size_(size) {}
  Bytes size() const override { return size_; }
  Result<> Fill(std::uint64_t seed) override { return session_.Fill(region_, seed); }
  Result<> Add() override { return session_.Add(region_); }
  Result<Mismatches> Check(std::uint64_t seed, std::uint64_t added) override {
    GPUMAN_ASSIGN(const Mismatches on_host, CheckOnHost(seed, added));
    GPUMAN_ASSIGN(const Mismatches on_device, session_.Check(region_, seed, added));
    return on_device.words ? on_device : on_host;
  }
  Result<> FlipByte(std::uint64_t offset) override {
    const auto row_bytes = region_.width * kWord;
    offset %= row_bytes * region_.rows;
    const auto address = region_.base + offset / row_bytes * region_.pitch + offset % row_bytes;
    const auto& cuda = session_.cuda();
    unsigned char byte = 0;
    GPUMAN_TRY(session_.Synchronize());
    GPUMAN_TRY(cuda.Invoke("cuMemcpyDtoH", session_.calls().cuMemcpyDtoH_v2, &byte, address, std::size_t{1}));
    byte = static_cast<unsigned char>(~byte);
    return cuda.Invoke("cuMemsetD8Async", session_.calls().cuMemsetD8Async, address, byte, std::size_t{1},
                       session_.stream());
  }

 protected:
  // Reads the start of the first row back, so that the host, too, checks the memory of the device.
  Result<Mismatches> CheckOnHost(std::uint64_t seed, std::uint64_t added) {
    std::vector<std::uint64_t> words(std::min<std::uint64_t>(region_.width, 8192));
    GPUMAN_TRY(session_.Synchronize());
    GPUMAN_TRY(session_.cuda().Invoke("cuMemcpyDtoH", session_.calls().cuMemcpyDtoH_v2, words.data(),
                                      region_.base, words.size() * kWord));
    Mismatches found;
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      if (words[i] == PatternWord(i, seed, added)) continue;
      found.first = std::min(found.first, i);
      ++found.words;
    }
    return found;
  }

  Session& session_;
  Region region_;
  Bytes size_;
};

Region Line(abi::CUdeviceptr base, Bytes size) { return {base, size.count / kWord, 1, size.count}; }

class PlainBlock final : public AddressedBlock {
 public:
  using AddressedBlock::AddressedBlock;
  ~PlainBlock() override { session_.calls().cuMemFree_v2(region_.base); }
};

class AsyncBlock final : public AddressedBlock {
 public:
  using AddressedBlock::AddressedBlock;
  ~AsyncBlock() override {
    session_.calls().cuMemFreeAsync(region_.base, session_.stream());
    session_.calls().cuStreamSynchronize(session_.stream());
  }
};

class VmmBlock final : public AddressedBlock {
 public:
  using AddressedBlock::AddressedBlock;
  ~VmmBlock() override {
    if (mapped_) session_.calls().cuMemUnmap(region_.base, size_.count);
    if (handle_) session_.calls().cuMemRelease(handle_);
    session_.calls().cuMemAddressFree(region_.base, size_.count);
  }
  Result<> Back() {
    const auto& cuda = session_.cuda();
    abi::CUmemAllocationProp wanted{};
    wanted.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, session_.device().handle};
    GPUMAN_TRY(
        cuda.Invoke("cuMemCreate", session_.calls().cuMemCreate, &handle_, size_.count, &wanted, 0ull));
    GPUMAN_TRY(cuda.Invoke("cuMemMap", session_.calls().cuMemMap, region_.base, size_.count, std::size_t{0},
                           handle_, 0ull));
    mapped_ = true;
    const abi::CUmemAccessDesc access{wanted.location, abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuda.Invoke("cuMemSetAccess", session_.calls().cuMemSetAccess, region_.base, size_.count, &access,
                       std::size_t{1});
  }

 private:
  abi::CUmemGenericAllocationHandle handle_ = 0;
  bool mapped_ = false;
};

using Made = Result<std::unique_ptr<Block>>;

Made Plain(Session& session, Bytes size) {
  abi::CUdeviceptr base = 0;
  GPUMAN_TRY(session.cuda().Invoke("cuMemAlloc", session.calls().cuMemAlloc_v2, &base, size.count));
  return std::make_unique<PlainBlock>(session, Line(base, size), size);
}

Made Async(Session& session, Bytes size) {
  abi::CUdeviceptr base = 0;
  GPUMAN_TRY(session.cuda().Invoke("cuMemAllocAsync", session.calls().cuMemAllocAsync, &base, size.count,
                                   session.stream()));
  auto block = std::make_unique<AsyncBlock>(session, Line(base, size), size);
  GPUMAN_TRY(session.Synchronize());
  return block;
}

Made Vmm(Session& session, Bytes size) {
  abi::CUmemAllocationProp wanted{};
  wanted.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, session.device().handle};
  std::size_t step = 0;
  const auto& cuda = session.cuda();
  GPUMAN_TRY(cuda.Invoke("cuMemGetAllocationGranularity", session.calls().cuMemGetAllocationGranularity,
                         &step, &wanted, abi::CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  size = {(size.count + step - 1) / step * step};
  abi::CUdeviceptr base = 0;
  GPUMAN_TRY(cuda.Invoke("cuMemAddressReserve", session.calls().cuMemAddressReserve, &base, size.count,
                         std::size_t{0}, 0ull, 0ull));
  auto block = std::make_unique<VmmBlock>(session, Line(base, size), size);
  GPUMAN_TRY(block->Back());
  return block;
}

Made Managed(Session& session, Bytes size) {
  GPUMAN_ASSIGN(const Bytes free, session.Free());
  if (size > free)
    return base::Fail(base::ErrorCode::kExhausted,
                      fmt::format("{} of managed memory refused: the device has {} free",
                                  base::FormatBytes(size), base::FormatBytes(free)));
  const auto& cuda = session.cuda();
  abi::CUdeviceptr base = 0;
  GPUMAN_TRY(cuda.Invoke("cuMemAllocManaged", session.calls().cuMemAllocManaged, &base, size.count,
                         static_cast<unsigned>(abi::CU_MEM_ATTACH_GLOBAL)));
  auto block = std::make_unique<PlainBlock>(session, Line(base, size), size);
  // Managed memory takes no space on the device before it is touched there.
  GPUMAN_TRY(cuda.Invoke("cuMemsetD8Async", session.calls().cuMemsetD8Async, base,
                         static_cast<unsigned char>(0), size.count, session.stream()));
  GPUMAN_TRY(session.Synchronize());
  return block;
}

Made Pitched(Session& session, Bytes size) {
  constexpr std::uint64_t kRow = 4000;  // not a power of two, so that rows are padded
  const auto row = std::min(size.count, kRow);
  const auto rows = (size.count + row - 1) / row;
  abi::CUdeviceptr base = 0;
  std::size_t pitch = 0;
  GPUMAN_TRY(session.cuda().Invoke("cuMemAllocPitch", session.calls().cuMemAllocPitch_v2, &base, &pitch, row,
                                   rows, 8u));
  return std::make_unique<PlainBlock>(session, Region{base, row / kWord, rows, pitch}, Bytes{pitch * rows});
}

}  // namespace

Made Allocate(Session& session, Api api, Bytes size) {
  size = {(size.count + kWord - 1) / kWord * kWord};
  switch (api) {
    case Api::kMalloc:
      return Plain(session, size);
    case Api::kAsync:
      return Async(session, size);
    case Api::kVmm:
      return Vmm(session, size);
    case Api::kManaged:
      return Managed(session, size);
    case Api::kPitch:
      return Pitched(session, size);
    case Api::kArray:
      return AllocateArrays(session, size);
  }
  return base::Fail(base::ErrorCode::kInternal, "unknown kind of memory");
}

}  // namespace gpuman::load
