// Which processes are movers of this daemon, also after it was killed and started again: those that it
// started. A mover is known by its pid and start time, never by its name, which every user can give to a
// program. Movers of other daemons are foreign processes, as their jobs are.
//
// A daemon that ends leaves its movers behind: each finishes its transfers and then ends. A mover that was
// let go, by this daemon or by a former one, counts for ten minutes. After that time it is a process of its
// user like any other: its user may have stopped it.
//
// Pure. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::daemon {

class OwnMovers {
 public:
  static constexpr base::Millis kFarewell{600'000};

  // `boot`: base::BootId(); pids of another boot mean nothing.
  explicit OwnMovers(std::string boot) : boot_(std::move(boot)) {}

  // Takes over the movers of the record that a former daemon kept; all of them have been let go.
  base::Result<> Recall(std::string_view record, base::MonoTime now);
  // This daemon has started this mover.
  void Add(const base::ProcessId& mover) { movers_[mover] = std::nullopt; }
  // `linked`: the pids of movers that this daemon still talks with. `is_there`: the process exists, perhaps
  // as a zombie. Drops movers that have ended, and those that were let go long ago; true: it dropped some.
  bool Refresh(const std::set<pid_t>& linked, const std::function<bool(const base::ProcessId&)>& is_there,
               base::MonoTime now);

  std::set<pid_t> Pids() const;
  // What Recall takes.
  std::string Record() const;

 private:
  const std::string boot_;
  std::map<base::ProcessId, std::optional<base::MonoTime>> movers_;  // when each was let go
};

}  // namespace gpuman::daemon
