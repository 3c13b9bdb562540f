// Finds out by pidfds which processes of the table are alive: a zombie counts as dead, and a process that
// reuses a pid is not the old process.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/state/identity.h"

namespace gpuman::sim {

// Watches each process by a pidfd, all in one epoll instance, so that a query costs the same for one and for
// a thousand. The end of a process that is out of sight (identity.h) is never reported. Thread-compatible.
class Liveness {
 public:
  explicit Liveness(std::uint32_t machine_space) : sight_(machine_space) {}  // Shared::machine_space
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // False if the process has already ended (or its pid belongs to another).
  bool Watch(std::uint64_t identity);
  void Forget(std::uint64_t identity);
  // For a watched process: the pid by which this process knows it, or Sight::kElsewhere.
  std::uint32_t PidOf(std::uint64_t identity) const;

  // The watched processes that have ended; they are no longer watched.
  std::vector<std::uint64_t> Ended();

  // The same by a look at each process: also finds processes whose pidfds the program has closed.
  std::vector<std::uint64_t> EndedByProc();

 private:
  struct Watched {
    std::uint32_t pid;
    int pidfd;  // -1: no descriptor was left: only EndedByProc sees the end; or out of sight
  };

  std::vector<std::uint64_t> WatchAllAnew();

  const Sight sight_;
  int epoll_ = -1;
  std::unordered_map<std::uint64_t, Watched> watched_;
};

}  // namespace gpuman::sim
