// Host copies of pieces that are on the GPU again: at their next way out only what has changed is copied.
// They use host memory that is the mover's in any case, for those very pieces, and give way when anything
// else needs it.
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
  // What is more is dropped at once. Nothing is kept before the first call.
  void SetLimit(std::uint64_t bytes);
  // Drops copies of at least so many bytes, as far as there are; false: there were none. Those of the
  // transfer go first that had changed most.
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

// Those of one transfer. Thread-safe.
class KeptCopies {
 public:
  // Both outlive this object.
  KeptCopies(KeptCopiesBudget& budget, HostArena& arena);
  ~KeptCopies();
  KeptCopies(const KeptCopies&) = delete;
  KeptCopies& operator=(const KeptCopies&) = delete;

  // Of the piece at this address of the process. A copy that was kept for the address before is dropped.
  void Keep(std::uint64_t address, HostCopy copy);
  // Takes the copy that was kept for a piece of this size; drops one of another size.
  std::optional<HostCopy> Claim(std::uint64_t address, std::uint64_t bytes);
  // How much of the transfer's last way out had to be copied.
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
