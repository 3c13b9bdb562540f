// The daemon's requests to gpuman-mover and the mover's answers: each message is one JSON object on a
// seqpacket socket, with descriptors where the verb says so.
//
//   {"id":7,"do":"checkpoint","pid":123,"start_time":456,"lock_timeout_ms":10000}
//   {"id":7,"outcome":"done","state":"checkpointed"}
//   {"id":8,"do":"restore","pid":123,"start_time":456,"gpus":[["GPU-old","GPU-new"],…]}
//   {"id":8,"outcome":"no_room","state":"checkpointed","message":"cuCheckpointProcessRestore: …"}
//   {"id":9,"do":"give","pid":123,"start_time":456,"room":1073741824}
//   {"id":0,"do":"grant",…,"bytes":536870912}
//   {"id":9,"outcome":"moving","state":"unknown","bytes":268435456,"pieces":0}   {"id":9,"outcome":"done",…}
//
// Values; the functions are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/change_detection.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "base/words.h"

namespace gpuman::suspend {

enum class Verb {
  kCan,         // can this driver checkpoint processes at all?
  kState,       // where is the process?
  kCheckpoint,  // lock, then checkpoint; when the checkpoint fails the process runs on
  kRestore,     // restore, then unlock
  kUnlock,      // for a process that is only locked
  // For memory that leaves the GPU through its shim (ledger/wire/transfer.h). Any number of these at a time.
  // `source` names the GPU that the memory is of; where it is empty the request is for all GPUs of the
  // process. `gpu` says where the process will be: memory that this GPU can read stays where it is, and is
  // copied straight to this GPU at kGive.
  kTake,    // with the process's connection: takes over the memory that the process hands out, and begins to
            // copy it. The answer comes when the process has given the memory away or, with `whole`, when the
            // memory is in host memory
  kSecure,  // brings all data of the process from the GPU to host memory; if some may stay on a GPU, the
            // answer says `straight`
  kLoad,    // brings the process's data into memory on a GPU, ready to be given
  kHold,    // has no answer: descriptors for a request that follows, for the pieces from `first` on
  kGive,    // with the process's connection: gives the memory of all GPUs to the process, `gpu` as in
            // kLoad; loads the rest meanwhile
  kForget,  // has no answer: the process has all the memory that it handed out, or does not want it
  kPrepare,  // makes host memory for `bytes` ready in the background, near the GPUs of `each`; says which
             // copies may be kept there. The answer's `bytes`: what is ready and free, or gives way
  kGrant,    // has no answer: gives `bytes` more room to the process's kLoad or kGive
};

constexpr auto WordsOf(Verb) {
  using enum Verb;
  return base::Words<Verb, 13>{{
      {kCan, "can"},
      {kState, "state"},
      {kCheckpoint, "checkpoint"},
      {kRestore, "restore"},
      {kUnlock, "unlock"},
      {kTake, "take"},
      {kSecure, "secure"},
      {kLoad, "load"},
      {kHold, "hold"},
      {kGive, "give"},
      {kForget, "forget"},
      {kPrepare, "prepare"},
      {kGrant, "grant"},
  }};
}

// A GPU by its UUID, and the GPU that takes its place.
struct GpuMove {
  std::string from, to;
  friend bool operator==(const GpuMove&, const GpuMove&) = default;
};

// Less than this is copied as fast as it is hashed (1.2 ms at 55 GB/s), and a copy that is kept holds at
// least so much host memory, a segment.
inline constexpr base::Bytes kWorthHashing = base::MiB(64);
// A kept copy is read this often: damage of the host's memory is found before the copy is needed.
inline constexpr base::Millis kCheckKept{600'000};

// Memory that may come to the host: of each GPU, by its UUID, the bytes of each process.
using HostDemand = std::map<std::string, std::vector<base::Bytes>>;
base::Bytes SumOf(const HostDemand& demand);

struct MoverRequest {
  std::uint64_t id = 0;
  Verb verb = Verb::kCan;
  base::ProcessId process{};     // all but kCan
  base::Millis lock_timeout{0};  // kCheckpoint; never 0 there: 0 would wait without limit
  std::vector<GpuMove> gpus{};   // kRestore: every GPU of the machine; empty: the process keeps its GPUs
  std::string gpu{};  // the UUID; empty: the GPU that the memory came from (kLoad), any GPU (kPrepare)
  // kSecure, kLoad, kHold, kForget, kGrant: the UUID of the GPU that the memory comes from; empty: all GPUs.
  // Messages call it `lane`.
  std::string source{};
  base::Bytes bytes{};  // kPrepare: the sum of `each`; kGrant
  HostDemand each{};    // kPrepare; empty: `bytes` of the GPU `gpu`
  base::ChangeDetection unchanged = base::ChangeDetection::kHash;  // kPrepare
  base::Bytes hash_from = kWorthHashing;  // kPrepare: less than this, leaving a GPU together, is not hashed
  base::Millis check_kept =
      kCheckKept;  // kPrepare: how often each kept copy is read and compared with its hash
  // kPrepare: the most bytes of copies that the mover may keep of memory that is on a GPU again, at most
  // `bytes`; none: no other bound.
  std::optional<base::Bytes> keep{};
  bool whole = false;  // kTake
  // kLoad, kGive: bytes that the mover may take on the GPU before the daemon grants more, for all GPUs in
  // sum where `source` is empty; none: no bound.
  std::optional<base::Bytes> room{};
  std::uint64_t first = 0;  // kHold
  friend bool operator==(const MoverRequest&, const MoverRequest&) = default;
};

enum class MoverOutcome {
  kDone,         // also when there was nothing left to do
  kNoCuda,       // the process does not use CUDA, so there is nothing to do: no failure
  kGone,         // the process has ended
  kNothing,      // kSecure, kLoad: the process has nothing in host memory
  kTimeout,      // its GPU work did not come to rest in time; it runs on
  kNoRoom,       // out of memory, on the device (restore) or the host (checkpoint)
  kRefused,      // the driver cannot do it for this process
  kUnsupported,  // this driver cannot do it for any process, or there is no driver
  kFailed,       // anything else; the message says what
  // No answer yet:
  kHolding,  // comes with descriptors of the memory that kTake took over, for another mover's kHold; without
             // descriptors: those sent before are not needed any more
  kTaken,    // kTake with `whole`: the process has given its memory away
  kMoving,   // `bytes` more have left the GPU, or have come to it; every 20 s at least
  // Last answers again:
  kLost,  // the request may be done or not: the mover died or took too long, or the driver cannot tell
};

constexpr auto WordsOf(MoverOutcome) {
  using enum MoverOutcome;
  return base::Words<MoverOutcome, 13>{{
      {kDone, "done"},
      {kNoCuda, "no_cuda"},
      {kGone, "gone"},
      {kNothing, "nothing"},
      {kTimeout, "timeout"},
      {kNoRoom, "no_room"},
      {kRefused, "refused"},
      {kUnsupported, "unsupported"},
      {kFailed, "failed"},
      {kHolding, "holding"},
      {kTaken, "taken"},
      {kMoving, "moving"},
      {kLost, "lost"},
  }};
}

// What the driver says of a process.
enum class DriverState { kUnknown, kRunning, kLocked, kCheckpointed, kBroken };
constexpr auto WordsOf(DriverState) {
  using enum DriverState;
  return base::Words<DriverState, 5>{{
      {kUnknown, "unknown"},
      {kRunning, "running"},
      {kLocked, "locked"},
      {kCheckpointed, "checkpointed"},
      {kBroken, "failed"},
  }};
}

struct MoverAnswer {
  std::uint64_t id = 0;
  MoverOutcome outcome = MoverOutcome::kFailed;
  DriverState state = DriverState::kUnknown;  // at the end, whatever the outcome; kUnknown with an outcome
                                              // other than kLost: nothing was done
  // A sentence when the outcome is neither kDone nor kNoCuda; kPrepare: on which GPUs nothing is hashed, and
  // why.
  std::string message{};
  base::Bytes bytes{};          // bytes that moved; in a notice: since the last one
  base::Bytes unchanged{};      // of `bytes`: not copied, since the host has them already or they are zeros
  std::uint64_t misjudged = 0;  // chunks that the hash took for unchanged, and that had changed (kCompare)
  base::Bytes kept{};           // kPrepare: the copies that are kept now
  std::uint64_t damaged =
      0;                 // kPrepare: chunks of kept copies that changed by themselves, since the last answer
  base::Millis took{0};  // by the driver's call, or by the copy
  std::uint64_t pieces = 0;  // kMoving, out: the pieces of this transfer that have left the GPU so far
  bool straight = false;     // kSecure, kLoad: the data are still on their old GPU, not in host memory
  std::string gpu{};  // kTake, and all notices: the GPU that the memory comes from; empty: an old mover
  friend bool operator==(const MoverAnswer&, const MoverAnswer&) = default;
};

// False: more answers come.
bool IsLast(MoverOutcome outcome);
// Whether a mover may give this answer to this request.
bool MayAnswer(const MoverRequest& request, const MoverAnswer& answer);

std::string_view ToString(Verb verb);
std::string_view ToString(MoverOutcome outcome);
std::string_view ToString(DriverState state);

// The UUID of a GPU without its prefix: so daemon and mover name it alike. CUDA tells a mover only the
// sixteen bytes, and the daemon writes "MIG-" before those of an instance.
inline std::string_view BareUuid(std::string_view uuid) { return uuid.substr(uuid.find('-') + 1); }

inline constexpr std::size_t kMaxLine = 64 * 1024;

// Without the newline. Bytes of a message that are not UTF-8 are replaced.
std::string Serialize(const MoverRequest& request);
std::string Serialize(const MoverAnswer& answer);

// kCorrupt for a text that is no such line: fields missing, mistyped, out of range, unknown words. Other
// fields are ignored. A long message is cut, and its control characters are replaced.
base::Result<MoverRequest> ParseRequest(std::string_view line);
base::Result<MoverAnswer> ParseAnswer(std::string_view line);

}  // namespace gpuman::suspend
