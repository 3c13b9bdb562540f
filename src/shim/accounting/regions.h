// The device memory that can leave the device and come back at the same addresses: one region for each
// allocation that the shim backs itself, mapped in pieces, and one for each mapping that the program made of
// its own memory (made_memory.h). Pure; not thread-safe. All zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::shim {

inline constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 20;  // what one handle of the driver's has

struct Region {
  std::uint64_t address;
  std::uint64_t size;     // as the program asked
  std::uint64_t bytes;    // as mapped, in granules
  std::uint64_t context;  // it goes with this one
  int device;
  std::uint64_t born = 0;     // which allocation it was
  std::uint64_t readers = 0;  // devices that may read it, a bit each
  std::uint64_t writers = 0;  // and write it
  std::uint64_t token = 0;    // 0: the shim backs it; else of the program's own memory
  unsigned char direct = 0;   // that is made for devices beside the GPU
  unsigned pool = 0;          // above 0: a segment of that pool (stream_pools.h)
};

constexpr std::uint64_t DeviceBit(int device) { return std::uint64_t{1} << device; }

// A part of a region that one handle backs.
struct Piece {
  std::uint64_t address;
  std::uint64_t bytes;
};

constexpr unsigned PiecesOf(const Region& region) {
  return region.token != 0 ? 1 : static_cast<unsigned>((region.bytes + kPieceBytes - 1) / kPieceBytes);
}
constexpr Piece PieceOf(const Region& region, unsigned index) {
  if (region.token != 0) return {region.address, region.bytes};
  const std::uint64_t from = index * kPieceBytes;
  return {region.address + from, region.bytes - from < kPieceBytes ? region.bytes - from : kPieceBytes};
}

class Regions {
 public:
  // False when there is no memory for it, or it overlaps another one.
  bool Add(const Region& region);
  // The region that begins at the address, taken out.
  bool Take(std::uint64_t address, Region& region);
  // One region of the context, taken out.
  bool TakeOneOf(std::uint64_t context, Region& region);
  // The region of which the program was given this address; null: none.
  const Region* Find(std::uint64_t address) const;

  // Of the region that begins at the address.
  void SetAccess(std::uint64_t address, std::uint64_t readers, std::uint64_t writers);

  std::size_t size() const { return size_; }
  const Region& at(std::size_t index) const { return entries_[index]; }
  std::uint64_t bytes() const { return bytes_; }

  void Reset();

 private:
  // How many regions begin at or before the address.
  std::size_t Before(std::uint64_t address) const;
  bool Grow();
  void Remove(std::size_t index);

  Region* entries_ = nullptr;  // by address
  std::size_t capacity_ = 0, size_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace gpuman::shim
