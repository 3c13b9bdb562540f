// Memory that a program makes without addresses (cuMemCreate) and that can leave the device. The driver's
// handle of such memory changes when the memory comes back, so the program gets a token in place of it. The
// tables here hold the tokens, and where the program has mapped the memory.
//
// A token is no address in any program, and so it is no handle of the driver. Pure; not thread-safe. An
// object of zeros is empty.
#pragma once

#include <cstdint>

#include "shim/libc/hash_table.h"

namespace gpuman::shim {

struct TokenAllocation {
  std::uint64_t handle;  // the driver's handle; not valid while a region stands for the memory
  int kept;              // as PieceBacking::kept
  int device;
  std::uint64_t bytes;
  std::uint64_t born;
  std::uint64_t references;  // handles that the program holds
  std::uint64_t mappings;
  std::uint64_t address;  // of its mapping; of the first where there are several
  std::uint32_t types;    // handle types that the program asked for, to export the memory
  unsigned char direct;   // allocFlags.gpuDirectRDMACapable
  bool whole;             // the mapping has all of the memory
  bool stays;             // others can reach the memory, or it has two mappings: it does not leave
  bool region;            // a region stands for the memory
};

struct TokenMapping {
  std::uint64_t address;
  std::uint64_t token;
  std::uint64_t size;
};

class MemoryTokenTable {
 public:
  static constexpr std::uint64_t kTag = std::uint64_t{0x6770} << 48;
  static constexpr bool IsToken(std::uint64_t handle) { return handle >> 48 == kTag >> 48; }

  // Enters the memory with one reference. Returns its token; 0: there is no memory for the entry.
  std::uint64_t Add(const TokenAllocation& made);
  // Returns null where no memory has this token, or where the memory has ended.
  TokenAllocation* Find(std::uint64_t token) { return made_.Find(token); }
  // Returns the memory for a call of the program with this token; null: the program has dropped its handles.
  TokenAllocation* Held(std::uint64_t token);
  // Takes the memory out and returns true, where the program has no handle and no mapping of it any more.
  bool TakeEnded(std::uint64_t token, TokenAllocation& made);

  // Enters a mapping. Returns false where there is no memory for the entry; the mapping then counts for ever.
  bool Mapped(const TokenMapping& mapping);
  // Takes out one mapping that lies wholly in the range, before the driver unmaps it; it counts until
  // Unmapped.
  bool TakeMapping(std::uint64_t address, std::uint64_t size, TokenMapping& mapping);
  void PutBack(const TokenMapping& mapping);
  void Unmapped(const TokenMapping& mapping);
  // Returns the token of the memory that is mapped at the address; 0: there is none.
  std::uint64_t TokenAt(std::uint64_t address);

  void Reset() {
    made_.Reset();
    mappings_.Reset();
  }

 private:
  struct Mapping {
    std::uint64_t token;
    std::uint64_t size;
  };
  HashTable<TokenAllocation> made_;  // by token
  HashTable<Mapping> mappings_;      // by address
  std::uint64_t last_ = 0;
};

}  // namespace gpuman::shim
