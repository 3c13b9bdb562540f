// The regions: device memory that can leave the device and come back at the same addresses. A region is
// memory that the shim backs itself, mapped in pieces, or a mapping that the program made of its own memory
// (memory_token_table.h). Pure; not thread-safe. An object of zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/accounting/arrays.h"

namespace gpuman::shim {

// The most that one handle of the driver has, in a region that the shim backs.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 20;

struct Region {
  std::uint64_t address;
  std::uint64_t size;     // as the program asked for it
  std::uint64_t bytes;    // as it is mapped, in granules
  std::uint64_t context;  // the region ends with this context
  int device;
  std::uint64_t born = 0;     // the number of the allocation, in order
  std::uint64_t readers = 0;  // devices that may read the region, one bit each
  std::uint64_t writers = 0;  // devices that may write it
  std::uint64_t token = 0;    // of the program's own memory; 0: the shim backs the region
  unsigned char direct = 0;   // the program's own memory is made for devices beside the GPU
  unsigned pool = 0;          // above 0: a segment of that pool (stream_pools.h)
};

constexpr std::uint64_t DeviceBit(int device) { return std::uint64_t{1} << device; }

// A part of a region that one handle backs.
struct Piece {
  std::uint64_t address;
  std::uint64_t bytes;
  int device;
};

constexpr unsigned PiecesOf(const Region& region) {
  return region.token != 0 ? 1 : static_cast<unsigned>((region.bytes + kPieceBytes - 1) / kPieceBytes);
}
constexpr Piece PieceOf(const Region& region, unsigned index) {
  if (region.token != 0) return {region.address, region.bytes, region.device};
  const std::uint64_t from = index * kPieceBytes;
  const std::uint64_t left = region.bytes - from;
  return {region.address + from, left < kPieceBytes ? left : kPieceBytes, region.device};
}

class Regions {
 public:
  // Returns false when there is no memory for the entry, or when the region overlaps another. The region's
  // device is below kMaxDevices.
  bool Add(const Region& region);
  // Takes out the region that begins at the address. Returns false when there is none.
  bool Take(std::uint64_t address, Region& region);
  // Takes out one region of the context. Returns false when there is none.
  bool TakeOneOf(std::uint64_t context, Region& region);
  // Returns the region of which the program was given this address; null: there is none.
  const Region* Find(std::uint64_t address) const;

  // Sets the devices of the region that begins at the address.
  void SetAccess(std::uint64_t address, std::uint64_t readers, std::uint64_t writers);

  std::size_t size() const { return size_; }
  const Region& at(std::size_t index) const { return entries_[index]; }
  // Returns how many bytes the regions on the device have; the device is below kMaxDevices.
  std::uint64_t BytesOn(int device) const { return bytes_[device]; }

  void Reset();

 private:
  // Returns how many regions begin at or before the address.
  std::size_t Before(std::uint64_t address) const;
  bool Grow();
  void Remove(std::size_t index);

  Region* entries_ = nullptr;  // sorted by address
  std::size_t capacity_ = 0, size_ = 0;
  std::uint64_t bytes_[kMaxDevices] = {};
};

}  // namespace gpuman::shim
