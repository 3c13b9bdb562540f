// Which processes of the table are alive, told by pidfds: a zombie counts as dead, a reused pid is not taken
// for the old process.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gpuman::sim {

// Identity of a process in one word; ProcessSlot::owner.
std::uint64_t MakeIdentity(std::uint32_t pid, std::uint64_t start_ticks);
std::uint32_t PidOf(std::uint64_t identity);

// Start time in clock ticks since boot of a running process; nullopt when there is none or it is a zombie.
std::optional<std::uint64_t> ReadStartTicks(std::uint32_t pid);

// Identity of this process; 0 when /proc is not readable.
std::uint64_t OwnIdentity();

// Watches processes by a pidfd each and one epoll instance, so that asking costs the same for one and for a
// thousand. Thread-compatible.
class Liveness {
 public:
  Liveness() = default;
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // False when the process has ended already (or its pid is another's by now).
  bool Watch(std::uint64_t identity);
  void Forget(std::uint64_t identity);

  // Those among the watched that have ended; they are no longer watched.
  std::vector<std::uint64_t> Ended();

  // The same by looking at each: also notices those whose descriptors the program has closed behind our back.
  std::vector<std::uint64_t> EndedByProc();

 private:
  std::vector<std::uint64_t> WatchAllAnew();

  int epoll_ = -1;
  std::unordered_map<std::uint64_t, int>
      pidfds_;  // -1: there was no descriptor left; told by EndedByProc alone
};

}  // namespace gpuman::sim
