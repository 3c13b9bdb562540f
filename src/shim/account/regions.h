// The device memory that the shim backs itself, so that it can leave the device and come back at the same
// addresses: one region for each allocation of the program's, mapped in pieces. Pure; not thread-safe. All
// zeros is empty.
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
  std::uint64_t born = 0;  // which allocation it was
};

// A part of a region that one handle backs.
struct Piece {
  std::uint64_t address;
  std::uint64_t bytes;
};

constexpr unsigned PiecesOf(const Region& region) {
  return static_cast<unsigned>((region.bytes + kPieceBytes - 1) / kPieceBytes);
}
constexpr Piece PieceOf(const Region& region, unsigned index) {
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
