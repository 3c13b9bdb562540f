// What the daemon stores of a job's way off the GPU and back, so that a new daemon goes on with it.
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

namespace gpuman::suspend {

// Where a job is between the GPU and the host's memory. At rest: kRunning, kSuspended, kEnded.
enum class SuspensionPhase {
  kRunning,
  kSuspending,  // on the way out, because somebody asked
  kSuspended,
  kResuming,    // on the way back, because somebody asked
  kUndoing,     // on the way back, because the way out failed or was called off
  kRetreating,  // on the way out again, because the way back failed
  kEnded,
};

std::string_view ToString(SuspensionPhase phase);

// Of the contract's job states: `suspended` from kSuspended until it runs again, else `running`. (Those of a
// job that ends are the daemon's business.)
std::string_view JobStateOf(SuspensionPhase phase);

using BytesByGpu = std::map<std::string, base::Bytes>;  // by UUID

// Of a job that was taken off its GPU to come back by itself.
struct Absence {
  std::string reason, cause;   // as they were given
  base::Millis room_lasts{0};  // it comes back when there has been room for it so long without a break
  friend bool operator==(const Absence&, const Absence&) = default;
};

struct SuspensionRecord {
  SuspensionPhase phase = SuspensionPhase::kRunning;
  bool wants_gpu = true;              // the end that was asked for: on a GPU, or off it
  std::optional<std::string> target;  // the GPU to come back on; none: where it was
  std::optional<Absence> absence{};   // until somebody asks for something else
  std::string reason;                 // the job's reason word; docs/suspend.md has them
  std::string detail;                 // and the sentence, with the numbers
  // What each process held on its GPUs when it was taken off. Room for this has to be there for its return.
  std::map<base::ProcessId, BytesByGpu> held;
  friend bool operator==(const SuspensionRecord&, const SuspensionRecord&) = default;
};

// The GPU, by UUID, that the process comes back on; empty: several, or none is known.
std::string ReturnsTo(const SuspensionRecord& record, const base::ProcessId& process);

std::string SerializeRecord(const SuspensionRecord& record);
// kCorrupt for what was not written by SerializeRecord.
base::Result<SuspensionRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::suspend
