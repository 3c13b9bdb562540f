// Host copies of pieces that are on the GPU again: when such a piece leaves, the mover copies only the chunks
// that have changed. A kept copy lies in host memory that the mover holds for that piece in any case, and the
// mover drops it when anything else needs that memory.
//
// A piece that leaves is compared with its copy by hashes alone, so the host memory is read from time to time
// while a copy is kept (CheckOldest): a chunk that the machine has damaged there is copied again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "mover/chunk_hash.h"
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

  struct CheckedCopy {
    std::uint64_t chunks = 0, damaged = 0;
  };
  // Reads the copy that was checked longest ago, or kept, if that was before `due`, and forgets the chunks
  // that do not have their hash any more. nullopt: no copy is due. One thread at a time may call this. It
  // ends early where the copy is wanted, or where `go_on`, called between chunks, returns false.
  using Clock = std::chrono::steady_clock;
  std::optional<CheckedCopy> CheckOldest(const HashKey& key, Clock::time_point due,
                                         const std::function<bool()>& go_on);

 private:
  friend class KeptCopies;
  void Add(KeptCopies* copies);
  void Remove(KeptCopies* copies);
  void HoldLimit();
  bool GiveWayLocked(std::uint64_t bytes);

  mutable std::mutex mutex_;  // taken before a KeptCopies' own
  std::condition_variable checked_;
  std::uint64_t limit_ = 0;
  std::set<KeptCopies*> all_;
  const KeptCopies* in_check_ = nullptr;  // CheckOldest reads a copy of it
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
  using Clock = KeptCopiesBudget::Clock;
  struct Entry {
    HostCopy copy;
    std::uint64_t kept = 0;       // in the order of Keep
    Clock::time_point checked{};  // when it was last known to be right
    bool in_check = false;        // CheckOldest reads it: it stays where it is
  };
  std::optional<HostCopy> Take(std::unique_lock<std::mutex>& lock, std::uint64_t address);
  Clock::time_point OldestCheck() const;
  const Entry* BeginCheck();
  void EndCheck(const std::vector<std::size_t>& damaged, bool whole);
  double changed() const;
  std::uint64_t DropOldest();

  KeptCopiesBudget& budget_;
  HostArena& arena_;
  mutable std::mutex mutex_;
  std::condition_variable check_ended_;
  std::atomic<int> waiting_{0};                    // threads that wait for a check to end
  std::map<std::uint64_t, Entry> entries_;         // by address
  std::map<std::uint64_t, std::uint64_t> by_age_;  // the address, by Entry::kept
  std::uint64_t bytes_ = 0, next_ = 0;
  double changed_ = 0;  // of the bytes of the last way out
};

}  // namespace gpuman::mover
