// What the daemon stores of a job's way off the GPU and back, so that a new daemon can go on with it.
//
// Values; the functions are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "base/words.h"

namespace gpuman::suspend {

// Where a job is between the GPU and the host's memory. At rest: kRunning, kSuspended, kEnded.
enum class SuspensionPhase {
  kRunning,
  kSuspending,  // on the way out, because it was asked for
  kSuspended,
  kResuming,    // on the way back, because it was asked for
  kUndoing,     // on the way back, because the way out failed or was cancelled
  kRetreating,  // on the way out again, because the way back failed
  kEnded,
};

constexpr auto WordsOf(SuspensionPhase) {
  using enum SuspensionPhase;
  return base::Words<SuspensionPhase, 7>{{
      {kRunning, "running"},
      {kSuspending, "suspending"},
      {kSuspended, "suspended"},
      {kResuming, "resuming"},
      {kUndoing, "undoing"},
      {kRetreating, "retreating"},
      {kEnded, "ended"},
  }};
}
std::string_view ToString(SuspensionPhase phase);

// Whether users see the job as suspended: from kSuspended until it runs again.
bool IsSuspended(SuspensionPhase phase);

using BytesByGpu = std::map<std::string, base::Bytes>;  // by UUID

// Why a job that comes back by itself was taken off its GPU.
struct AutoResume {
  std::string reason, cause;   // from the request
  base::Millis room_lasts{0};  // the job comes back when there has been room for it so long without a break
  friend bool operator==(const AutoResume&, const AutoResume&) = default;
};

struct SuspensionRecord {
  SuspensionPhase phase = SuspensionPhase::kRunning;
  bool wants_gpu = true;                // the state that was asked for: on a GPU, or off it
  std::optional<std::string> target;    // the GPU to come back on; none: the GPU where it was
  std::optional<AutoResume> absence{};  // until a request asks for something else
  std::string reason;                   // the job's reason word; docs/suspend.md has them
  std::string detail;                   // the sentence for it, with the numbers
  // What each process held on its GPUs when the job was suspended. The process needs this room to return.
  std::map<base::ProcessId, BytesByGpu> held;
  // What stays on the GPUs while the job is suspended: contexts, and memory that cannot leave.
  BytesByGpu left{};
  // Of an idle job that is away: a process came to the GPU meanwhile, and was not behind its gate when the
  // driver took it. So it may be in the middle of a call that shows at no gate, and the job is to come back.
  bool called = false;
  friend bool operator==(const SuspensionRecord&, const SuspensionRecord&) = default;
};

// The UUID of the GPU on which the process comes back; empty: there are several, or none is known.
std::string ReturnsTo(const SuspensionRecord& record, const base::ProcessId& process);

// The bytes of `held` that are not `left`, by GPU: in host memory while the job is suspended.
BytesByGpu AwayOf(const SuspensionRecord& record);

std::string SerializeRecord(const SuspensionRecord& record);
// kCorrupt for text that SerializeRecord did not write.
base::Result<SuspensionRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::suspend
