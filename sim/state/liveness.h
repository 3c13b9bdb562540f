// Which processes of the table are alive, told by pidfds: a zombie counts as dead, a reused pid is not taken
// for the old process.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/state/identity.h"

namespace gpuman::sim {

// Watches processes by a pidfd each and one epoll instance, so that asking costs the same for one and for a
// thousand. One that is out of sight (identity.h) never ends here. Thread-compatible.
class Liveness {
 public:
  explicit Liveness(std::uint32_t machine_space) : sight_(machine_space) {}  // Shared::machine_space
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // False when the process has ended already (or its pid is another's by now).
  bool Watch(std::uint64_t identity);
  void Forget(std::uint64_t identity);
  // Of one that is watched: the pid by which this process knows it, or Sight::kElsewhere.
  std::uint32_t PidOf(std::uint64_t identity) const;

  // Those among the watched that have ended; they are no longer watched.
  std::vector<std::uint64_t> Ended();

  // The same by looking at each: also notices those whose descriptors the program has closed behind our back.
  std::vector<std::uint64_t> EndedByProc();

 private:
  struct Watched {
    std::uint32_t pid;
    int pidfd;  // -1: there was no descriptor left, or nothing to open one for; told by EndedByProc alone
  };

  std::vector<std::uint64_t> WatchAllAnew();

  const Sight sight_;
  int epoll_ = -1;
  std::unordered_map<std::uint64_t, Watched> watched_;
};

}  // namespace gpuman::sim
