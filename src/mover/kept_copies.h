// Host copies of pieces that are on the GPU again: when such a piece leaves, the mover copies only the chunks
// that have changed. A kept copy lies in host memory that the mover holds for that piece in any case, and the
// mover drops it when anything else needs that memory.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "mover/host_arena.h"
#include "mover/host_copy.h"

namespace gpuman::mover {

class KeptCopies;

// The kept copies of all transfers of a mover, and how many bytes they may be. Thread-safe.
class KeptCopiesBudget {
 public:
  // Drops the copies beyond the limit at once. The limit is 0 before the first call.
  void SetLimit(std::uint64_t bytes);
  // Drops copies of at least so many bytes, as far as there are; false: there were none. The first to go are
  // those of the transfer whose memory had changed most.
  bool GiveWay(std::uint64_t bytes);
  std::uint64_t bytes() const;

 private:
  friend class KeptCopies;
  void Add(KeptCopies* copies);
  void Remove(KeptCopies* copies);
  void HoldLimit();
  bool GiveWayLocked(std::uint64_t bytes);

  mutable std::mutex mutex_;  // taken before a KeptCopies' own
  std::uint64_t limit_ = 0;
  std::set<KeptCopies*> all_;
};

// The kept copies of one transfer. Thread-safe.
class KeptCopies {
 public:
  // Both outlive this object.
  KeptCopies(KeptCopiesBudget& budget, HostArena& arena);
  ~KeptCopies();
  KeptCopies(const KeptCopies&) = delete;
  KeptCopies& operator=(const KeptCopies&) = delete;

  // Keeps the copy of the piece at this address of the process, and drops one that it kept for the address
  // before.
  void Keep(std::uint64_t address, HostCopy copy);
  // Takes the copy that was kept for a piece of this size; drops one of another size.
  std::optional<HostCopy> Claim(std::uint64_t address, std::uint64_t bytes);
  // Notes how many bytes of the transfer's last way out the mover had to copy, and of how many.
  void SetChanged(std::uint64_t copied, std::uint64_t bytes);
  void DropAll();
  std::uint64_t bytes() const;

 private:
  friend class KeptCopiesBudget;
  struct Entry {
    HostCopy copy;
    std::uint64_t kept = 0;  // in the order of Keep
  };
  std::optional<HostCopy> Take(std::uint64_t address);
  double changed() const;
  std::uint64_t DropOldest();

  KeptCopiesBudget& budget_;
  HostArena& arena_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;         // by address
  std::map<std::uint64_t, std::uint64_t> by_age_;  // the address, by Entry::kept
  std::uint64_t bytes_ = 0, next_ = 0;
  double changed_ = 0;  // of the bytes of the last way out
};

}  // namespace gpuman::mover
