#include "share/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/words.h"

namespace gpuman::share {
namespace {

using base::ErrorCode;
using base::WordOf;
using base::Words;

constexpr Words<PolicyKind, 3> kPolicies{
    {{PolicyKind::kFair, "fair"}, {PolicyKind::kPriority, "priority"}, {PolicyKind::kFcfs, "fcfs"}}};
constexpr Words<ConcurrencyMode, 3> kComputes{{{ConcurrencyMode::kConcurrent, "concurrent"},
                                               {ConcurrencyMode::kExclusive, "exclusive"},
                                               {ConcurrencyMode::kAuto, "auto"}}};
constexpr Words<MemoryBackend, 3> kMemories{
    {{MemoryBackend::kAuto, "auto"}, {MemoryBackend::kVmm, "vmm"}, {MemoryBackend::kManaged, "managed"}}};
constexpr Words<OnNoYield, 3> kHows{
    {{OnNoYield::kWait, "wait"}, {OnNoYield::kSuspend, "suspend"}, {OnNoYield::kEnd, "end"}}};

template <typename Value, std::size_t kCount>
base::Result<Value> Parse(const Words<Value, kCount>& words, std::string_view name, std::string_view text) {
  if (const auto value = base::ValueOf(words, text)) return *value;
  std::string known;
  for (const auto& [each, word] : words) known += (known.empty() ? "" : ", ") + std::string(word);
  return base::Fail(ErrorCode::kInvalidArgument,
                    std::string(name) + " cannot be \"" + std::string(text) + "\"; it is one of: " + known);
}

base::Result<> Within(std::string_view name, base::Millis value, base::Millis least, base::Millis most) {
  if (value >= least && value <= most) return {};
  return base::Fail(ErrorCode::kInvalidArgument, std::string(name) + " is " + base::FormatDuration(value) +
                                                     "; it has to be from " + base::FormatDuration(least) +
                                                     " to " + base::FormatDuration(most));
}

}  // namespace

base::Result<> Validate(const SchedulerSettings& settings) {
  using base::Millis;
  constexpr Millis kHour{3'600'000}, kDay = 24 * kHour;
  GPUMAN_TRY(Within("share.quantum_min", settings.quantum_min, Millis(10), kDay));
  GPUMAN_TRY(Within("share.quantum_max", settings.quantum_max, settings.quantum_min, kDay));
  GPUMAN_TRY(Within("share.idle", settings.idle, Millis(2), Millis(60'000)));
  GPUMAN_TRY(Within("share.compute_quantum", settings.compute_quantum, Millis(10), kDay));
  GPUMAN_TRY(Within("share.compute_trial", settings.compute_trial, Millis(1000), kHour));
  GPUMAN_TRY(Within("share.compute_again", settings.compute_again, settings.compute_trial, kDay));
  GPUMAN_TRY(Within("share.interactive_wait", settings.interactive_wait, Millis(10), kDay));
  GPUMAN_TRY(Within("share.yield_limit", settings.yield_limit, Millis(100), kDay));
  GPUMAN_TRY(Within("share.answer_limit", settings.answer_limit, Millis(100), kDay));
  GPUMAN_TRY(Within("share.retry", settings.retry, Millis(100), kDay));
  // Written so that a NaN fails too.
  if (!(settings.overhead_target >= 0.001 && settings.overhead_target <= 0.5))
    return base::Fail(ErrorCode::kInvalidArgument, "share.overhead_target has to be from 0.1 % to 50 %");
  return {};
}

base::Bytes CapacityOf(const SchedulerSettings& settings, const std::string& gpu, base::Bytes whole) {
  const auto own = settings.capacity_of.find(gpu);
  if (own != settings.capacity_of.end()) return std::min(own->second.Of(whole), whole);
  return settings.capacity ? std::min(settings.capacity->Of(whole), whole) : whole;
}

std::string_view ToString(PolicyKind policy) { return WordOf(kPolicies, policy); }
std::string_view ToString(ConcurrencyMode compute) { return WordOf(kComputes, compute); }
std::string_view ToString(MemoryBackend memory) { return WordOf(kMemories, memory); }
std::string_view ToString(OnNoYield how) { return WordOf(kHows, how); }

base::Result<PolicyKind> ParsePolicy(std::string_view word) { return Parse(kPolicies, "share.policy", word); }
base::Result<ConcurrencyMode> ParseConcurrency(std::string_view word) {
  return Parse(kComputes, "share.compute", word);
}
base::Result<MemoryBackend> ParseMemory(std::string_view word) {
  return Parse(kMemories, "share.memory", word);
}
base::Result<OnNoYield> ParseOnNoYield(std::string_view word) {
  return Parse(kHows, "share.on_no_yield", word);
}
base::Result<OnNoYield> ParseOnNoAnswer(std::string_view word) {
  return Parse(kHows, "share.on_no_answer", word);
}
base::Result<base::ChangeDetection> ParseUnchanged(std::string_view word) {
  return Parse(WordsOf(base::ChangeDetection{}), "share.unchanged", word);
}

}  // namespace gpuman::share
