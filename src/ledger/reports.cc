// What the shims tell for people: peaks, and allocations that were refused.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "ledger/ledgers.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

using base::JobId;

// Twice what a count reaches: a program has written it.
constexpr std::uint64_t kMaxBytes = 2 * std::uint64_t{UINT32_MAX} * wire::kUnit;

std::optional<base::MemoryParts> PartsIn(const wire::Composition& composition) {
  wire::Composition told{};
  if (!wire::Read(composition, told) || told.sum > kMaxBytes) return std::nullopt;
  const auto of = [&](wire::MemoryKind kind) {
    return base::Bytes{told.of_kind[static_cast<unsigned>(kind)]};
  };
  using enum wire::MemoryKind;
  return base::MemoryParts{of(kAllocation), of(kPool), of(kVirtual), of(kArray), of(kContext),
                           {told.others},   {}};
}

std::optional<base::Bytes> Known(std::uint64_t word) {
  return word == wire::kUnknownBytes ? std::nullopt : std::optional(base::Bytes{word});
}

// `at`: how things were at a refusal, maybe at this one; null: the ledger does not tell.
std::optional<Refusal> RefusalIn(const std::string& uuid, const wire::Refusal& told,
                                 const wire::AtRefusal* at) {
  Refusal refusal;
  refusal.number = wire::Load(told.number);
  const auto by = wire::Load(told.by);
  if (refusal.number == 0 || by == 0 || by > static_cast<std::uint32_t>(wire::RefusedBy::kDevice))
    return std::nullopt;
  refusal.uuid = uuid;
  refusal.by = static_cast<wire::RefusedBy>(by);
  refusal.asked = {wire::Load(told.bytes)};
  refusal.is_context = wire::Load(told.what) == static_cast<std::uint32_t>(wire::RefusedWhat::kContext);
  refusal.used = {wire::Load(told.used)};
  if (const std::uint64_t hard = wire::Load(told.limit); hard != wire::kNoLimit)
    refusal.limit = base::Bytes{hard};
  refusal.at = wire::Load(told.at);
  if (!at || wire::Load(at->number) != refusal.number) return refusal;
  refusal.pools_unused = Known(wire::Load(at->pools_unused));
  refusal.device_free = Known(wire::Load(at->device_free));
  refusal.parts = PartsIn(at->memory);
  if (!refusal.parts) return refusal;
  const base::Bytes counted = refusal.parts->Sum();
  if (counted > refusal.used)
    refusal.parts.reset();
  else
    refusal.parts->uncounted = refusal.used - counted;
  return refusal;
}

// The name of a program, without what is no printable character.
std::string ProgramIn(const wire::ProcessPeak& peak) {
  std::string name;
  for (const std::uint64_t& word : peak.name)
    for (std::uint64_t rest = wire::Load(word); rest != 0; rest >>= 8)
      if (const auto c = static_cast<char>(rest & 0xff); c >= ' ' && c <= '~') name.push_back(c);
  return name;
}

base::MemoryParts PartsIn(const wire::PeakParts& told) {
  const auto of = [&](wire::MemoryKind kind) {
    return base::Bytes{told.of_kind[static_cast<unsigned>(kind)] * wire::kUnit};
  };
  using enum wire::MemoryKind;
  return {of(kAllocation), of(kPool), of(kVirtual), of(kArray), of(kContext), {}, {}};
}

// The index in the ledger and the UUID of each GPU that has limits, in their order. Before limits are given,
// those that the ledger names: its job may have ended before this daemon knows any GPU.
std::vector<std::pair<unsigned, std::string>> GpusIn(const wire::Ledger& ledger,
                                                     const std::vector<GpuLimit>& limits) {
  std::vector<std::pair<unsigned, std::string>> gpus;
  for (unsigned gpu = 0; limits.empty() && gpu < wire::GpusOf(ledger); ++gpu)
    gpus.emplace_back(gpu, UuidAt(ledger, gpu));
  for (const GpuLimit& limit : limits)
    if (const auto gpu = IndexOf(ledger, limit.uuid)) gpus.emplace_back(*gpu, limit.uuid);
  return gpus;
}

}  // namespace

std::vector<ProcessPeak> Ledgers::ProcessPeaksOf(JobId job) const {
  std::vector<ProcessPeak> peaks;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return peaks;
  const wire::Ledger& ledger = *found->second.page;
  const auto gpus = GpusIn(ledger, found->second.limits);
  const std::map<unsigned, std::string> uuids(gpus.begin(), gpus.end());
  for (unsigned i = 0; i < wire::kPeaks; ++i) {
    const wire::ProcessPeak* const peak = wire::PeakAt(ledger, i);
    const std::uint64_t owner = peak ? wire::Load(peak->owner) : 0;
    const auto gpu = uuids.find(wire::GpuOfPeak(owner));
    wire::PeakParts told{};
    if (gpu == uuids.end() || !wire::ReadPeak(*peak, told)) continue;
    peaks.push_back(
        {static_cast<pid_t>(wire::PidOfPeak(owner)), ProgramIn(*peak), gpu->second, PartsIn(told)});
  }
  std::ranges::stable_sort(peaks, std::greater{}, [](const auto& peak) { return peak.parts.Sum(); });
  return peaks;
}

// Where too few marks are free for a process that joins, frees the smaller half of those whose process has
// ended. Does not look at them before, since to look takes memory: the ledger's file has holes.
void Ledgers::FreePeaks(Entry& entry) {
  const unsigned needed = wire::GpusOf(*entry.page);
  entry.peaks_claimed += needed;
  if (entry.peaks_claimed <= wire::kPeaks) return;
  wire::Ledger& ledger = *entry.page;
  unsigned free = 0;
  std::vector<std::pair<std::uint32_t, wire::ProcessPeak*>> ended;
  for (unsigned i = 0; i < wire::kPeaks; ++i) {
    wire::ProcessPeak* const peak = wire::PeakAt(ledger, i);
    const std::uint64_t owner = peak ? wire::Load(peak->owner) : 0;
    if (peak && owner == 0) ++free;
    if (owner == 0) continue;
    const unsigned slot = wire::SlotOfPeak(owner);
    const bool lives = slot < wire::kSlots && wire::SlotIsLocked(entry.page.descriptor(), slot) &&
                       wire::Load(ledger.slot[slot].pid) == wire::PidOfPeak(owner);
    wire::PeakParts told{};
    wire::ReadPeak(*peak, told);
    if (!lives) ended.emplace_back(told.sum, peak);
  }
  const std::size_t freed = free < needed ? (ended.size() + 1) / 2 : 0;
  std::ranges::sort(ended);
  for (std::size_t i = 0; i < freed; ++i) wire::FreePeak(*ended[i].second);
  entry.peaks_claimed = wire::kPeaks - free - freed + needed;
}

std::vector<GpuUsage> Ledgers::PeaksOf(JobId job) const {
  std::vector<GpuUsage> peaks;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return peaks;
  const wire::Ledger& ledger = *found->second.page;
  for (auto& [gpu, uuid] : GpusIn(ledger, found->second.limits)) {
    const std::uint64_t peak = wire::Load(ledger.gpu[gpu].peak);
    peaks.push_back({std::move(uuid), {peak > kMaxBytes ? 0 : peak}});
  }
  return peaks;
}

std::vector<FirstAndLastRefusal> Ledgers::RefusalsOf(JobId job) const {
  std::vector<FirstAndLastRefusal> refusals;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return refusals;
  const wire::Ledger& ledger = *found->second.page;
  for (const auto& [gpu, uuid] : GpusIn(ledger, found->second.limits)) {
    const wire::GpuPeakAndRefusals* const detail = wire::DetailOf(ledger, gpu);
    auto last = RefusalIn(uuid, ledger.gpu[gpu].refusal, detail ? &detail->at_last : nullptr);
    if (!last) continue;
    auto first = detail ? RefusalIn(uuid, detail->first, &detail->at_first) : std::nullopt;
    if (first && (first->number != wire::Load(detail->at_first.number) || first->number > last->number))
      first.reset();
    refusals.push_back({*std::move(last), std::move(first)});
  }
  return refusals;
}

void Ledgers::ForgetFirstRefusals(JobId job, std::uint64_t at) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  for (unsigned gpu = 0; gpu < wire::kMaxGpus; ++gpu) {
    wire::GpuPeakAndRefusals* const detail = wire::DetailOf(*found->second.page, gpu);
    if (detail && wire::Load(detail->first.at) < at) wire::Store(detail->at_first.number, 0);
  }
}

std::optional<base::MemoryParts> Ledgers::PartsOfPeak(JobId job, std::string_view uuid) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  const wire::Ledger& ledger = *found->second.page;
  const auto gpu = IndexOf(ledger, uuid);
  const auto* const detail = gpu ? wire::DetailOf(ledger, *gpu) : nullptr;
  auto parts = detail ? PartsIn(detail->peak) : std::nullopt;
  if (parts && parts->Sum().count != wire::Load(ledger.gpu[*gpu].peak)) parts.reset();
  return parts;
}

}  // namespace gpuman::ledger
