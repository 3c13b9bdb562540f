// The device memory that the shim backs itself, so that it can leave the device and come back at the same
// addresses: one region for each allocation of the program's, mapped in pieces.
//
// Also says where each byte goes in host memory: regions one after the other by address. Pure; not
// thread-safe. All zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::shim {

inline constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 20;  // what one handle of the driver's has
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{64} << 20;   // what host memory is registered in

struct Region {
  std::uint64_t address;
  std::uint64_t size;     // as the program asked
  std::uint64_t bytes;    // as mapped, in granules
  std::uint64_t context;  // it goes with this one
  int device;
};

// A part of a region that one handle backs.
struct Piece {
  std::uint64_t address;
  std::uint64_t bytes;
};

// One copy: within one piece of the device's memory, and one chunk of the host's.
struct Slice {
  std::uint64_t address;
  std::uint64_t host;  // offset
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

  // Calls visit(slice) for all of them, in order, while it says true. False: it said false.
  template <typename Visit>
  bool ForEachSlice(Visit visit) const {
    std::uint64_t host = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const Region& region = entries_[i];
      for (std::uint64_t done = 0; done < region.bytes;) {
        const std::uint64_t bytes =
            Least(region.bytes - done, kPieceBytes - done % kPieceBytes, kChunkBytes - host % kChunkBytes);
        if (!visit(Slice{region.address + done, host, bytes})) return false;
        done += bytes;
        host += bytes;
      }
    }
    return true;
  }

  void Reset();

 private:
  static constexpr std::uint64_t Least(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    const std::uint64_t ab = a < b ? a : b;
    return ab < c ? ab : c;
  }
  // How many regions begin at or before the address.
  std::size_t Before(std::uint64_t address) const;
  bool Grow();
  void Remove(std::size_t index);

  Region* entries_ = nullptr;  // by address
  std::size_t capacity_ = 0, size_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace gpuman::shim
