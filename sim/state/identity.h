// Who a process is to the simulated driver, and what one process sees of another.
//
// It is as the kernel and NVIDIA's driver have it: a process is known by its number in the namespace of who
// asks, and is not seen at all from a namespace that it is not in. A container sees its own processes; the
// machine, whose namespace is the one in which the state was made, sees those of all.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuman::sim {

// Identity of a process in one word; ProcessSlot::owner. `number` is its pid in its own pid namespace,
// `space` that namespace (OwnSpace).
std::uint64_t MakeIdentity(std::uint32_t number, std::uint32_t space, std::uint64_t start_ticks);

// Identity of this process; 0 when /proc is not readable.
std::uint64_t OwnIdentity();

// The pid namespace of this process: the lowest bits of its number, in which no two on a machine are alike
// unless it has many thousands. 0 where /proc does not tell.
std::uint32_t OwnSpace();

// Start time in clock ticks since boot of a running process; nullopt when there is none or it is a zombie.
// The number is one of this process's namespace.
std::optional<std::uint64_t> ReadStartTicks(std::uint32_t pid);

// What this process sees of the others. As of its making: not to be kept over a fork.
class Sight {
 public:
  // Of a process that is out of sight: whether it runs, who sees it has to tell.
  static constexpr std::uint32_t kElsewhere = 0;

  explicit Sight(std::uint32_t machine_space);  // Shared::machine_space

  // The pid by which this process knows it, or kElsewhere; nullopt when it has ended. Costs a look at every
  // process of the machine where it is one of another namespace.
  std::optional<std::uint32_t> Find(std::uint64_t identity) const;
  // The same of one that was found before, at no such cost.
  static bool StillRuns(std::uint64_t identity, std::uint32_t pid);

 private:
  std::uint32_t machine_;
  std::uint32_t own_ = 0;     // OwnSpace
  bool proc_is_own_ = false;  // /proc shows the processes by their numbers in this namespace
};

}  // namespace gpuman::sim
