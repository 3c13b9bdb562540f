// Finds the job whose keeper is the nearest above a process.
//
// Each ancestor costs a read of /proc, and a user can have chains of processes as long as the system permits.
// So a call reads a limited number of ancestors and says whether it came to the end; the next call continues
// from there. The results are kept for each process, so a part of the chain that many processes share is read
// once. A process gets other ancestors only when an ancestor dies, and then no new keeper is above it. So a
// result stays true until a keeper is added, and then for all processes that are older than that keeper.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/process.h"

namespace gpuman::gpu {

class Ancestry {
 public:
  struct Found {
    std::optional<base::JobId> job;
    bool complete = true;  // false: some ancestors have not been read yet
  };

  // `table` must outlive this object.
  explicit Ancestry(const base::ProcessTable& table) : table_(table) {}

  // A process may be the keeper of several jobs; it counts for the one with the lowest id then.
  void Add(base::JobId job, base::ProcessId keeper);
  void Remove(base::JobId job, base::ProcessId keeper);

  // `process`: as the table has it. Reads at most about `most` processes.
  Found JobAbove(const base::ProcessInfo& process, std::size_t most);

 private:
  // No keeper is above the process, up to and without `reached`; or, without `reached`, the final answer.
  struct KnownAncestry {
    std::optional<base::ProcessId> reached;
    std::optional<base::JobId> job;
  };
  using Path = std::vector<base::ProcessInfo>;
  std::optional<base::JobId> JobOfKeeper(base::ProcessId process) const;
  bool Reread(Path& path, std::size_t& reads) const;
  Found Learn(const Path& path, KnownAncestry known);

  const base::ProcessTable& table_;
  std::set<std::pair<base::ProcessId, base::JobId>> keepers_;
  std::map<base::ProcessId, KnownAncestry> known_;
};

}  // namespace gpuman::gpu
