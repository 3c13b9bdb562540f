// Which jobs are idle: they leave their GPUs until their next call, and which of those that have left are to
// come back. Pure.
//
// A job is judged by the gate that its calls pass, not by the use of its GPU. A process is idle from its last
// call on, once its shim has found no call and no work in flight (ledger/wire/orders.h: Activity). The shim
// sees the work of the default streams. Work in other streams shows only when the job is brought to rest:
// then the suspension is called off, and that counts as activity (RecordFailure).
//
// An idle job that is away comes back when one of its threads waits at the gate, or when a process came to
// the GPU that no gate holds. A job that its user suspended does not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/process.h"
#include "suspend/record.h"

namespace gpuman::suspend {

// The reason of a job that left its GPU because it was idle.
inline constexpr const char* kIdleReason = "idle";

struct IdleSettings {
  // For pressure a job counts as idle after this time, or after its own if that is shorter.
  base::Millis for_pressure{10'000};
  base::Millis after_failure{300'000};  // at least, until a job that could not leave is asked again
};

enum class ProcessActivity {
  kUnknown,  // its shim has not told yet
  kBusy,     // calls, or work in flight
  kIdle,
  kWaits  // a thread waits at the gate, or for room on the GPU
};

struct IdleProcess {
  base::ProcessId id;
  bool has_shim = false;  // its calls pass a gate that the daemon sees
  bool on_gpu = false;    // it has a context or memory on a GPU, also where that is away now
  ProcessActivity activity = ProcessActivity::kUnknown;
  base::MonoTime since{};  // kIdle: its last call
};

struct IdleJob {
  base::JobId job;
  std::optional<base::Millis> after;  // the setting; absent: it is not suspended for being idle
  std::string no_gate;                // why its calls pass no gate; empty: they do
  SuspensionPhase phase = SuspensionPhase::kRunning;
  std::string reason;   // of its suspension record
  bool called = false;  // from the same (SuspensionRecord::called)
  std::vector<IdleProcess> processes;
};

// What one job does.
struct Idleness {
  bool idle = false;       // and it may leave
  base::MonoTime since{};  // idle: its last call
  bool calls = false;      // a thread waits at the gate
  std::string why_never;   // why it is never suspended for being idle; empty: it is, or has no setting
};
Idleness IdlenessOf(const IdleJob& job);

// What is remembered of a job between two calls of DecideIdle; kept by the caller, erased with the job.
struct IdleBackoff {
  base::MonoTime not_before{};  // no suspension is asked for earlier
};

struct IdleDecisions {
  struct Leave {
    base::JobId job;
    base::Millis idle{0};  // since its last call
    friend bool operator==(const Leave&, const Leave&) = default;
  };
  std::vector<Leave> leave;
  std::vector<base::JobId> wake;
  // Idle jobs that may leave when others need their room, with the time of their last call.
  std::map<base::JobId, base::MonoTime> spare;
  std::optional<base::MonoTime> again;  // when to look again if nothing is heard before; none: never
};

IdleDecisions DecideIdle(const std::vector<IdleJob>& jobs, const IdleSettings& settings,
                         const std::map<base::JobId, IdleBackoff>& history, base::MonoTime now);

enum class IdleFailure {
  kNotAtRest,  // it works, although no call showed it; or a call came on its way out
  kOther       // it could not leave, or was refused
};
// A suspension that DecideIdle asked for has failed.
void RecordFailure(IdleBackoff& history, IdleFailure failure, base::Millis after,
                   const IdleSettings& settings, base::MonoTime now);

// How often the shims of a job with this setting are to look at what their programs do.
base::Millis WatchFor(base::Millis after);

}  // namespace gpuman::suspend
