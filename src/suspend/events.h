// What the state machine of a suspension sees, is told and orders: observations, events and actions. Values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/units.h"
#include "suspend/record.h"
#include "suspend/request.h"

namespace gpuman::suspend {

// How far a shim is with an eviction for a suspension; made of its residency in the ledger. kFailed: the last
// order failed; `evicted` says what is in host memory then.
enum class EvictionProgress { kNone, kOnGpu, kEvicting, kEvicted, kRestoring, kFailed };

struct GpuFootprint {
  base::Bytes used;       // as the driver shows it
  base::Bytes evictable;  // what its shim could evict
  base::Bytes evicted;    // what its shim holds in host memory
  base::Bytes context{};  // the size of a context on this GPU; 0: not known
  // When `used` was read; max: it is as new as the rest.
  base::MonoTime sampled_at = base::MonoTime::max();
  friend bool operator==(const GpuFootprint&, const GpuFootprint&) = default;
};

struct ObservedProcess {
  base::ProcessId id;
  std::map<std::string, GpuFootprint> gpus{};  // by UUID; the GPUs on which the process has memory
  bool has_shim = false;
  EvictionProgress eviction = EvictionProgress::kNone;
  bool answered = true;  // `eviction` is the shim's answer to the last order
  std::string error{};   // the shim's error, with kFailed
  bool silent = false;   // the shim has not answered yet, and will send no notification when it answers
  // Memory that the driver saves with a checkpoint and cannot restore (measured): only the shim can evict it.
  bool holds_imported = false;
  // Memory of this process was exported, or it has opened memory of others: they reach each other.
  bool shares = false;
  bool fetches = false;  // the shim can bring its memory back behind its closed gate
  // Bytes of managed memory, which the driver does not checkpoint.
  base::Bytes managed{};
  // The shim's answer to the last order was: no call passes the gate and no work is in flight.
  bool held = false;
  bool closing = false;  // the shim is closing its gate
  bool stopped = false;  // by a signal or a debugger: driver calls for it would not return (measured)
  // False: the driver's figure is older than the shim's count, and the next figure is not known yet.
  bool figures_current = true;
};

struct ObservedGpu {
  std::string uuid, name;
  std::optional<unsigned> index{};  // as users know the GPU
};

namespace event {
// `reason` (held_by_user, device_pressure, …) and `detail` become those of the job. With `room_lasts` the job
// comes back by itself when there has been room for so long; a job that was suspended without `room_lasts`
// before still stays away. With kIdleReason (idle.h) `detail` stays the beginning of the detail while the job
// is away, and a job that does not come to rest just runs on: it works, although nobody saw it.
struct SuspendAsked {
  std::string reason, detail;
  std::optional<base::Millis> room_lasts{};
  std::optional<base::Millis> idle{};  // with kIdleReason: since the job's last call; for the event
};
struct ResumeAsked {
  std::optional<std::string> gpu{};  // UUID; none: the GPU where it was
};
struct MoveAsked {
  std::string gpu;
};
// The job was cancelled, or is over: the state machine orders nothing more, whatever the state.
struct Ended {};
// Every process of the job and every GPU of the machine, all of them each time. The caller sends it before it
// sends any request; then after each sampling and whenever the eviction of a shim changed.
struct Observed {
  std::vector<ObservedProcess> processes;
  std::vector<ObservedGpu> gpus;
};
// The answers to QuiesceJob. `took`, `steps` (calls that had to pass) and the like go into the event of the
// job.
struct JobQuiesced {
  base::Millis took{0};
  unsigned steps = 0;
};
struct QuiesceFailed {
  std::string why;  // goes on where "the job did not come to rest: " ends
  base::Millis took{0};
  unsigned steps = 0;
  unsigned units = 0, working = 0;  // a unit is a process on one of its GPUs
};
// The answer to AskCan (process {}), AskState, Checkpoint or RestoreCheckpoint.
struct DriverAnswered {
  base::ProcessId process{};
  MoverAnswer answer;
};
// The answer to CopyToHost or CopyToGpu.
struct MoverAnswered {
  base::ProcessId process;
  Verb verb = Verb::kSecure;
  MoverAnswer answer;
};
// For a job that wants to come back: the free memory on each GPU, and whether ChooseToResume chose the job
// (`chosen`) or the job's room has not lasted long enough yet (`settling`).
struct RoomAvailable {
  BytesByGpu free;
  bool chosen = false;
  bool settling = false;
};
struct Tick {};  // the deadline has come
}  // namespace event
using Event = std::variant<event::SuspendAsked, event::ResumeAsked, event::MoveAsked, event::Ended,
                           event::Observed, event::JobQuiesced, event::QuiesceFailed, event::DriverAnswered,
                           event::MoverAnswered, event::RoomAvailable, event::Tick>;

namespace action {
// All processes of the job with a shim come to rest within `limit`: their calls wait at the gates, their work
// ends, and their memory stays on the GPU. Processes that come meanwhile are held, too. The answer is
// JobQuiesced or QuiesceFailed; if the wait is over before (CancelQuiesce), there is none. The state machine
// then gives each process its next order.
struct QuiesceJob {
  base::Millis limit;
  friend bool operator==(const QuiesceJob&, const QuiesceJob&) = default;
};
struct CancelQuiesce {
  friend bool operator==(const CancelQuiesce&, const CancelQuiesce&) = default;
};
struct OrderEvict {
  base::ProcessId process;
  friend bool operator==(const OrderEvict&, const OrderEvict&) = default;
};
// All memory is on the GPU again, and the gate stays closed (ObservedProcess::fetches).
struct OrderFetchToGpu {
  base::ProcessId process;
  friend bool operator==(const OrderFetchToGpu&, const OrderFetchToGpu&) = default;
};
struct OrderRestore {
  base::ProcessId process;
  bool held = false;  // with its gate closed and its memory where it is (SuspensionSettings::restores_held)
  friend bool operator==(const OrderRestore&, const OrderRestore&) = default;
};
// Asks whether the driver can checkpoint. The state machine asks early: the question starts the mover while
// the shims evict.
struct AskCan {
  friend bool operator==(const AskCan&, const AskCan&) = default;
};
struct AskState {
  base::ProcessId process;
  friend bool operator==(const AskState&, const AskState&) = default;
};
struct Checkpoint {
  base::ProcessId process;
  base::Millis lock_timeout;
  base::Bytes bytes{};  // the memory that the process has on the device now
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};
struct RestoreCheckpoint {
  base::ProcessId process;
  std::vector<GpuMove> gpus;
  friend bool operator==(const RestoreCheckpoint&, const RestoreCheckpoint&) = default;
};
// The memory that the shim gave away has to be whole in host memory, and off every GPU. With `target` (the
// GPU where the job goes next), the memory may stay on a GPU that `target` can read.
struct CopyToHost {
  base::ProcessId process;
  std::string target{};
  friend bool operator==(const CopyToHost&, const CopyToHost&) = default;
};
// The memory has to be on a GPU again: on `gpu`, or, if that is empty, on the GPU that it came from.
struct CopyToGpu {
  base::ProcessId process;
  std::string gpu;
  friend bool operator==(const CopyToGpu&, const CopyToGpu&) = default;
};
// The job is on this GPU from now on: one of its processes came back there, even if others fail to; or a job
// that was to move comes back here, where it was.
struct Moved {
  std::string gpu;
  friend bool operator==(const Moved&, const Moved&) = default;
};
// Phase, reason or detail of the record changed. Empty reason: none.
struct SetState {
  SuspensionPhase phase;
  std::string reason, detail;
  friend bool operator==(const SetState&, const SetState&) = default;
};
struct Emit {
  std::string kind, message;
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const Emit&, const Emit&) = default;
};
}  // namespace action
using Action = std::variant<action::QuiesceJob, action::CancelQuiesce, action::OrderEvict,
                            action::OrderFetchToGpu, action::OrderRestore, action::AskCan, action::AskState,
                            action::Checkpoint, action::RestoreCheckpoint, action::CopyToHost,
                            action::CopyToGpu, action::Moved, action::SetState, action::Emit>;
using Actions = std::vector<Action>;

}  // namespace gpuman::suspend
