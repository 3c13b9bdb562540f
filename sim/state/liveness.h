// Which processes of the table are alive, told by pidfds: a zombie counts as dead, a reused pid is not taken
// for the old process.
#pragma once

#include <cstdint>
#include <mutex>
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

// Keeps a pidfd for each identity of the last question. Thread-safe.
class Liveness {
 public:
  Liveness() = default;
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // Those of `identities` whose processes have ended.
  std::vector<std::uint64_t> Dead(const std::vector<std::uint64_t>& identities);

 private:
  void CloseAllBut(const std::vector<std::uint64_t>& identities);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, int> pidfds_;
};

}  // namespace gpuman::sim
