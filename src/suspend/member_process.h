// One process of a job that leaves its GPUs or comes back, as the state machine knows it, and what follows
// from that alone. Values; pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "suspend/events.h"
#include "suspend/request.h"

namespace gpuman::suspend {

// More memory than a checkpointed process still has on the GPU (4 MiB on an H200).
constexpr base::Bytes kResidue = base::MiB(16);

enum class ProcessOrder { kNone, kHold, kEvict, kFetch, kRestore };
// Where the mover has the memory that the shim gave away. kStraight: still on the GPU that the process
// left, on its way to the target.
enum class MemoryLocation { kUnknown, kHost, kStraight, kGpu };

struct MemberProcess {
  ObservedProcess seen;
  DriverState saved = DriverState::kRunning;
  bool no_cuda = false;  // the driver finds no CUDA in it
  ProcessOrder order = ProcessOrder::kNone;
  bool guessed = false;  // an earlier daemon gave `order`, or one like it
  base::MonoTime ordered_at{};
  base::MonoTime answered_at{};  // when the answer to `order` was seen
  base::MonoTime eviction_since{};
  bool without_shim = false;  // its shim did not answer in time on this way
  int losses = 0;             // answers that never came on this way
  // The moves of a restore whose answer never came: the driver may have restored the process.
  std::vector<GpuMove> lost_moves{};
  // The process could not be taken off the GPU, or need not be: the state machine does not look at it again
  // before this time.
  std::optional<base::MonoTime> left_until{};
  bool reported = false;
  base::MonoTime recheck_at{};  // from this time on the state machine checks whether a checkpointed process
                                // is on the GPU
  std::optional<GpuMove> arrived;  // its last move, while samples may still show the process on its old GPU
  base::MonoTime arrived_at{};
  // What the driver restored last, while samples may still show the process without it.
  BytesByGpu restored{};
  base::MonoTime restored_at{};
  MemoryLocation location = MemoryLocation::kUnknown;
  std::optional<Verb> moving;  // kSecure or kLoad, not answered yet
  // The mover found none of the process's memory in host memory, although its slot showed some: the shim
  // had just taken that memory back. The state machine waits for a new look at the process before it asks
  // the mover again.
  bool outdated = false;
  int nothing_found = 0;  // times in a row
};

// Adds up one part of the process's memory over all its GPUs.
base::Bytes Sum(const ObservedProcess& view, base::Bytes GpuFootprint::*part);

// The process has memory or a context on a GPU, as far as it is seen.
bool IsOnGpu(const MemberProcess& member);
// The process, or a part of its memory, has left its GPUs.
bool IsOff(const MemberProcess& member);
// The mover has some of the process's memory.
bool IsAway(const MemberProcess& member);
// Its shim is at work on the way back, or has not answered the last order.
bool ComesBack(const MemberProcess& member);
bool IsShimAtWork(const MemberProcess& member);
// Its next call waits at its gate, and shows.
inline bool IsBehindGate(const MemberProcess& member) {
  return member.seen.held || member.seen.eviction == EvictionProgress::kEvicted;
}
// Others may reach memory of the process, or it reaches memory of others.
inline bool Shares(const MemberProcess& member) { return member.seen.holds_imported || member.seen.shares; }
// Its shim has evicted what can leave, and memory that is shared with others is left.
bool Stays(const MemberProcess& member);
// When the shim began with the last order, or with what it does now.
base::MonoTime AtWorkSince(const MemberProcess& member);
// The shim was ordered to evict, and has not answered.
bool MayBegin(const MemberProcess& member);
// The shim was ordered to bring its memory back.
inline bool MustCome(const MemberProcess& member) {
  return member.order == ProcessOrder::kFetch || member.order == ProcessOrder::kRestore;
}
// The shim was ordered to bring its memory back, and has not answered.
bool MayNotCome(const MemberProcess& member);
// Says to people that the process is stopped.
std::string WhyStopped(const MemberProcess& member);

// Shows what the driver restored last where a sample does not yet.
void ShowRestored(MemberProcess& member);
// Without this, a sample from before the restore shows nothing of the process, and the next way out leaves it
// on its GPU. A new sample may repeat an old list of processes. After `patience` every sample is believed.
void CorrectRestored(MemberProcess& member, base::MonoTime now, base::Millis patience);
// A sample from before the process arrived shows it on its old GPU: the next move would wrongly start there.
void CorrectLocation(MemberProcess& member, base::MonoTime now, base::Millis patience);

}  // namespace gpuman::suspend
