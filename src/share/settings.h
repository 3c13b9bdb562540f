// What a user can set about sharing a GPU. Values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/change_detection.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::share {

// Which tenant is next. kFair: the one that had least time for its weight, moving time counted. kPriority:
// strictly the one with the higher priority, among equals as kFair; a tenant with a lower priority may
// starve. kFcfs: the one that waits longest.
enum class PolicyKind { kFair, kPriority, kFcfs };
// How tenants that fit together run: at once, one after the other, or in the way that completes more.
enum class ConcurrencyMode { kConcurrent, kExclusive, kAuto };
// The kind of memory that tenants get. kAuto: memory that gpuman can move (kVmm) where the device supports
// it, else managed memory, which the driver moves. A change holds for programs that start after it.
enum class MemoryBackend { kAuto, kVmm, kManaged };
// What happens to a holder whose work does not come to rest within yield_limit, or whose processes do not
// answer.
enum class OnNoYield { kWait, kSuspend, kEnd };

struct SchedulerSettings {
  PolicyKind policy = PolicyKind::kFair;
  // A turn that others wait for lasts moving time / overhead_target, within these bounds.
  base::Millis quantum_min{1000};
  base::Millis quantum_max{30'000};
  double overhead_target = 0.05;
  base::Millis idle{100};  // after so long without work in flight, the tenant loses the rest of its turn
  // After so long, a tenant of short bursts gets in however much of the holder's turn is left (policy.h).
  base::Millis interactive_wait{1000};
  bool pause = false;  // turns stay as they are; tenants that fit still run
  ConcurrencyMode compute = ConcurrencyMode::kConcurrent;
  MemoryBackend memory = MemoryBackend::kAuto;
  bool managed_turns = true;                 // false: no tenant waits because of managed memory
  base::Millis compute_quantum{500};         // a turn among tenants that fit together
  base::Millis compute_trial{10'000};        // kAuto: how long each way is tried
  base::Millis compute_again{600'000};       // kAuto: after how long the trials are repeated
  std::optional<base::SizeSpec> capacity{};  // of every GPU; none: what the daemon finds free for tenants
  std::map<std::string, base::SizeSpec> capacity_of{};  // by UUID; takes precedence over `capacity`
  OnNoYield on_no_yield = OnNoYield::kWait;
  base::Millis yield_limit{5000};
  bool step = true;  // processes that wait for each other make single calls, so that all come to rest
  // Between users: what happens to a holder whose processes are stopped, or do not answer, when a job of
  // another user has waited for `answer_limit` for the holder's room.
  OnNoYield on_no_answer = OnNoYield::kSuspend;
  base::Millis answer_limit{30'000};
  base::Millis retry{30'000};  // the longest wait after a failed move before the next try
  base::ChangeDetection unchanged = base::ChangeDetection::kHash;  // of memory that leaves
  friend bool operator==(const SchedulerSettings&, const SchedulerSettings&) = default;
};

// kInvalidArgument with the name of the setting and its allowed values.
base::Result<> Validate(const SchedulerSettings& settings);

// The capacity of a GPU of `whole` bytes; never more than that.
base::Bytes CapacityOf(const SchedulerSettings& settings, const std::string& gpu, base::Bytes whole);

// "fair", "priority", "fcfs"; "concurrent", "exclusive", "auto"; "auto", "vmm", "managed"; "wait", "suspend",
// "end".
std::string_view ToString(PolicyKind policy);
std::string_view ToString(ConcurrencyMode compute);
std::string_view ToString(MemoryBackend memory);
std::string_view ToString(OnNoYield how);
base::Result<PolicyKind> ParsePolicy(std::string_view word);
base::Result<ConcurrencyMode> ParseConcurrency(std::string_view word);
base::Result<MemoryBackend> ParseMemory(std::string_view word);
base::Result<OnNoYield> ParseOnNoYield(std::string_view word);
base::Result<OnNoYield> ParseOnNoAnswer(std::string_view word);
base::Result<base::ChangeDetection> ParseUnchanged(std::string_view word);  // the words of WordsOf()

}  // namespace gpuman::share
