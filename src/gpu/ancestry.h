// Which job's keeper is the nearest above a process.
//
// Each ancestor costs a look into /proc, and a user can have chains of processes as long as the system lets
// them: a call looks at so many and says where it has not come to an end; the next one goes on from there.
// What was found is kept by process, so a way that many have in common is gone once. A process's ancestors
// change only by their deaths, which bring no keeper: what is known stays true until a keeper is added, and
// then of all processes that are older than that one.
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
    bool complete = true;  // false: there are ancestors that were not looked at yet
  };

  // `table` must outlive this object.
  explicit Ancestry(const base::ProcessTable& table) : table_(table) {}

  // A process may be the keeper of several jobs: it is that of the lowest then.
  void Add(base::JobId job, base::ProcessId keeper);
  void Remove(base::JobId job, base::ProcessId keeper);

  // `process`: as the table has it. Looks at `most` processes.
  Found JobAbove(const base::ProcessInfo& process, std::size_t most);

 private:
  // Up to and without `reached` no keeper is above; or the answer.
  struct Known {
    std::optional<base::ProcessId> reached;
    std::optional<base::JobId> job;
  };
  using Path = std::vector<base::ProcessInfo>;
  std::optional<base::JobId> JobOfKeeper(base::ProcessId process) const;
  bool Reread(Path& path, std::size_t& looks) const;
  Found Learn(const Path& path, Known known);

  const base::ProcessTable& table_;
  std::set<std::pair<base::ProcessId, base::JobId>> keepers_;
  std::map<base::ProcessId, Known> known_;
};

}  // namespace gpuman::gpu
