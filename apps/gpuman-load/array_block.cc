#include "array_block.h"

#include <algorithm>

namespace gpuman::load {
namespace {

using base::Bytes;
using base::Result;
namespace abi = driver::abi;

constexpr std::uint64_t kTexel = 16;  // four channels of 32 bits
constexpr std::uint64_t kRow = 4096 * kTexel;
constexpr std::uint64_t kMaxRows = 32768;  // within the 2D limits of every device since Maxwell
constexpr std::uint64_t kWindowRows = 256;

// Distinct for each array and row, so that Check finds arrays that were swapped within a block.
std::uint64_t SeedOf(std::uint64_t seed, std::uint64_t array, std::uint64_t row) {
  return seed ^ (array << 40) ^ ((row / kWindowRows + 1) << 16);
}

class ArrayBlock final : public Block {
 public:
  explicit ArrayBlock(Session& session) : session_(session) {}
  ~ArrayBlock() override {
    for (const auto& array : arrays_) session_.calls().cuArrayDestroy(array.handle);
  }

  Result<> Append(std::uint64_t rows) {
    const abi::CUDA_ARRAY_DESCRIPTOR wanted{kRow / kTexel, rows, abi::CU_AD_FORMAT_UNSIGNED_INT32, 4};
    abi::CUarray handle = nullptr;
    GPUMAN_TRY(session_.cuda().Invoke("cuArrayCreate", session_.calls().cuArrayCreate_v2, &handle, &wanted));
    arrays_.push_back({handle, rows});
    return {};
  }

  Bytes size() const override {
    std::uint64_t rows = 0;
    for (const auto& array : arrays_) rows += array.rows;
    return {rows * kRow};
  }

  Result<> Fill(std::uint64_t seed) override {
    return Walk([&](const Region& window, std::uint64_t array, std::uint64_t row) -> Result<bool> {
      GPUMAN_TRY(session_.Fill(window, SeedOf(seed, array, row)));
      return true;
    });
  }

  Result<> Add() override {
    return Walk([&](const Region& window, std::uint64_t array, std::uint64_t row) -> Result<bool> {
      GPUMAN_TRY(Copy(array, row, window, true));
      GPUMAN_TRY(session_.Add(window));
      return true;
    });
  }

  Result<Mismatches> Check(std::uint64_t seed, std::uint64_t added) override {
    Mismatches all;
    std::uint64_t words_before = 0;
    const auto visit = [&](const Region& window, std::uint64_t array, std::uint64_t row) -> Result<bool> {
      GPUMAN_TRY(Copy(array, row, window, true));
      GPUMAN_ASSIGN(const Mismatches found, session_.Check(window, SeedOf(seed, array, row), added));
      all.words += found.words;
      if (found.words) all.first = std::min(all.first, words_before + found.first);
      words_before += window.width;
      return false;
    };
    GPUMAN_TRY(Walk(visit));
    return all;
  }

  Result<> FlipByte(std::uint64_t offset) override {
    offset %= size().count;
    const auto visit = [&](const Region& window, std::uint64_t array, std::uint64_t row) -> Result<bool> {
      const auto bytes = window.pitch;
      const bool mine = offset < bytes;
      if (mine) {
        GPUMAN_TRY(Copy(array, row, window, true));
        GPUMAN_TRY(session_.Synchronize());
        unsigned char byte = 0;
        const auto& cuda = session_.cuda();
        GPUMAN_TRY(cuda.Invoke("cuMemcpyDtoH", session_.calls().cuMemcpyDtoH_v2, &byte, window.base + offset,
                               std::size_t{1}));
        byte = static_cast<unsigned char>(~byte);
        GPUMAN_TRY(cuda.Invoke("cuMemsetD8Async", session_.calls().cuMemsetD8Async, window.base + offset,
                               byte, std::size_t{1}, session_.stream()));
        offset = UINT64_MAX;
      } else if (offset != UINT64_MAX) {
        offset -= bytes;
      }
      return mine;
    };
    GPUMAN_TRY(Walk(visit));
    return session_.Synchronize();
  }

 private:
  struct Array {
    abi::CUarray handle;
    std::uint64_t rows;
  };

  // Copies rows between an array and the window.
  Result<> Copy(std::uint64_t array, std::uint64_t row, const Region& window, bool to_window) {
    abi::CUDA_MEMCPY2D copy{};
    copy.WidthInBytes = kRow;
    copy.Height = window.pitch / kRow;
    if (to_window) {
      copy.srcMemoryType = abi::CU_MEMORYTYPE_ARRAY;
      copy.srcArray = arrays_[array].handle;
      copy.srcY = row;
      copy.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = window.base;
      copy.dstPitch = kRow;
    } else {
      copy.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = window.base;
      copy.srcPitch = kRow;
      copy.dstMemoryType = abi::CU_MEMORYTYPE_ARRAY;
      copy.dstArray = arrays_[array].handle;
      copy.dstY = row;
    }
    return session_.cuda().Invoke("cuMemcpy2DAsync", session_.calls().cuMemcpy2DAsync_v2, &copy,
                                  session_.stream());
  }

  // Visits all memory, one window at a time; where `visit` returns true, the window is copied to the array.
  template <typename Visit>
  Result<> Walk(Visit visit) {
    GPUMAN_ASSIGN(const abi::CUdeviceptr base, session_.Window({kRow * kWindowRows}));
    for (std::uint64_t array = 0; array < arrays_.size(); ++array) {
      for (std::uint64_t row = 0; row < arrays_[array].rows; row += kWindowRows) {
        const auto bytes = std::min(kWindowRows, arrays_[array].rows - row) * kRow;
        const Region window{base, bytes / sizeof(std::uint64_t), 1, bytes};
        GPUMAN_ASSIGN(const bool changed, visit(window, array, row));
        if (changed) GPUMAN_TRY(Copy(array, row, window, false));
      }
    }
    return {};
  }

  Session& session_;
  std::vector<Array> arrays_;
};

}  // namespace

Result<std::unique_ptr<Block>> AllocateArrays(Session& session, Bytes size) {
  auto block = std::make_unique<ArrayBlock>(session);
  for (auto rows = (size.count + kRow - 1) / kRow; rows > 0;) {
    const auto now = std::min(rows, kMaxRows);
    GPUMAN_TRY(block->Append(now));
    rows -= now;
  }
  return block;
}

}  // namespace gpuman::load
