// Device memory of each kind, as blocks that can be filled, changed and checked.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "options.h"
#include "session.h"

namespace gpuman::load {

// The destructor frees the memory; a block must not outlive its session.
class Block {
 public:
  virtual ~Block() = default;
  // The bytes that the block occupies, as far as the API reports them: with padding and granularity.
  virtual base::Bytes size() const = 0;
  virtual base::Result<> Fill(std::uint64_t seed) = 0;
  virtual base::Result<> Add() = 0;
  virtual base::Result<Mismatches> Check(std::uint64_t seed, std::uint64_t added) = 0;
  // Inverts all bits of one byte; offsets beyond the block wrap.
  virtual base::Result<> FlipByte(std::uint64_t offset) = 0;
};

// Allocates one block of at least `size`, rounded up to whole 64-bit words, or to rows where the kind has
// rows. kExhausted: the device has no more. Allocate refuses managed memory if the device has less free
// memory, since a driver that moves managed memory back and forth can hang the device.
base::Result<std::unique_ptr<Block>> Allocate(Session& session, Api api, base::Bytes size);

}  // namespace gpuman::load
