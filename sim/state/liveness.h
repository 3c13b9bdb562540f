// Which processes of the table are alive, told by pidfds: a zombie counts as dead, a reused pid is not taken
// for the old process.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace gpuman::sim {

// Identity of a process in one word; ProcessSlot::owner.
std::uint64_t MakeIdentity(std::uint32_t pid, std::uint64_t start_ticks);
std::uint32_t PidOf(std::uint64_t identity);
std::uint64_t StartTicksOf(std::uint64_t identity);

// Start time in clock ticks since boot; nullopt when there is no such process.
std::optional<std::uint64_t> ReadStartTicks(std::uint32_t pid);
// Identity of this process.
std::uint64_t OwnIdentity();

// Remembers a pidfd for each identity it was asked about. Thread-safe.
class Liveness {
 public:
  Liveness() = default;
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  bool IsAlive(std::uint64_t identity);

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, int> pidfds_;
};

}  // namespace gpuman::sim
