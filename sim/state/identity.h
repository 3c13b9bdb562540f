// The identity of a process for the simulated driver, and what one process sees of another.
//
// This follows the kernel and NVIDIA's driver: a process sees another one by the number that the other has in
// the pid namespace of the asking process. It does not see a process that this namespace does not contain. A
// container sees its own processes; the machine, whose namespace is the one in which the state was made, sees
// all processes.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuman::sim {

// The identity of a process in one word; ProcessSlot::owner. `number` is its pid in its own pid namespace,
// `space` that namespace (OwnSpace).
std::uint64_t MakeIdentity(std::uint32_t number, std::uint32_t space, std::uint64_t start_ticks);

// The identity of this process; 0 if /proc is not readable.
std::uint64_t OwnIdentity();

// The pid namespace of this process: the lowest bits of the namespace's number. Two namespaces of a machine
// have the same bits only if the machine has many thousands of namespaces. 0 if /proc does not show it.
std::uint32_t OwnSpace();

// Start time of a running process in clock ticks since boot; nullopt if it does not exist or is a zombie.
// `pid` is a number of this process's namespace.
std::optional<std::uint64_t> ReadStartTicks(std::uint32_t pid);

// What this process sees of other processes. The constructor reads the facts: do not keep the object over a
// fork.
class Sight {
 public:
  // The pid of a process that is out of sight: only processes that see it can tell whether it runs.
  static constexpr std::uint32_t kElsewhere = 0;

  explicit Sight(std::uint32_t machine_space);  // Shared::machine_space

  // The pid by which this process knows the other, or kElsewhere; nullopt if it has ended. For a process of
  // another namespace, Find looks at every process of the machine.
  std::optional<std::uint32_t> Find(std::uint64_t identity) const;
  // Whether a process that Find returned before still runs; without the cost of Find.
  static bool StillRuns(std::uint64_t identity, std::uint32_t pid);

 private:
  std::uint32_t machine_;
  std::uint32_t own_ = 0;     // OwnSpace
  bool proc_is_own_ = false;  // /proc shows processes by their numbers in this namespace
};

}  // namespace gpuman::sim
