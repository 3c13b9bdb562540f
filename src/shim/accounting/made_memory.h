// Memory that a program makes without addresses (cuMemCreate) and that can leave the device: what it holds in
// place of the driver's handles, which change when the memory comes back, and where it has mapped it.
//
// A token is no address of any program, and so no handle of the driver's. Pure; not thread-safe. All zeros is
// empty.
#pragma once

#include <cstdint>

#include "shim/accounting/table.h"

namespace gpuman::shim {

struct Made {
  std::uint64_t handle;  // the driver's; not where a region stands for the memory
  int kept;              // as PieceBacking's
  int device;
  std::uint64_t bytes;
  std::uint64_t born;
  std::uint64_t references;  // handles that the program holds
  std::uint64_t mappings;
  std::uint64_t address;  // of its mapping, where it has been at one only
  std::uint32_t types;    // by which it may be exported, as the program asked
  unsigned char direct;   // allocFlags.gpuDirectRDMACapable
  bool whole;             // that mapping is of all of it
  bool stays;             // what others have, or is at two addresses, does not leave
  bool region;            // one stands for it
};

struct MadeMapping {
  std::uint64_t address;
  std::uint64_t token;
  std::uint64_t size;
};

class MadeMemory {
 public:
  static constexpr std::uint64_t kTag = std::uint64_t{0x6770} << 48;
  static constexpr bool IsToken(std::uint64_t handle) { return handle >> 48 == kTag >> 48; }

  // Its token, for one reference. 0: there is no memory for the entry.
  std::uint64_t Add(const Made& made);
  // Null: no such token, or one that is gone.
  Made* Find(std::uint64_t token) { return made_.Find(token); }
  // What the program is to reach by a handle: null where it has dropped all.
  Made* Held(std::uint64_t token);
  // Takes it out where the program has neither a handle nor a mapping of it any more.
  bool TakeEnded(std::uint64_t token, Made& made);

  // False: there is no memory for the entry; the mapping counts as one all the same, for ever.
  bool Mapped(const MadeMapping& mapping);
  // One that lies whole in the range, taken out before the driver is asked; it counts until Unmapped.
  bool TakeMapping(std::uint64_t address, std::uint64_t size, MadeMapping& mapping);
  void PutBack(const MadeMapping& mapping);
  void Unmapped(const MadeMapping& mapping);
  // What is mapped at the address; 0: none of these.
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
  Table<Made> made_;         // by token
  Table<Mapping> mappings_;  // by address
  std::uint64_t last_ = 0;
};

}  // namespace gpuman::shim
