#include "ledger/ledgers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/text.h"
#include "base/uuid.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::JobId;
using base::Result;

constexpr std::string_view kGpuPrefix = "GPU-", kInstancePrefix = "MIG-";

std::uint64_t Word(const std::optional<base::Bytes>& limit) { return limit ? limit->count : wire::kNoLimit; }

Result<> Validate(std::span<const GpuLimit> limits) {
  if (limits.size() > wire::kMaxGpus)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} GPUs; a job has at most {}", limits.size(), wire::kMaxGpus));
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (!ParseUuid(limits[i].uuid))
      return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no GPU's UUID", limits[i].uuid));
    for (std::size_t j = 0; j < i; ++j) {
      if (ParseUuid(limits[j].uuid) == ParseUuid(limits[i].uuid))
        return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is named twice", limits[i].uuid));
    }
  }
  return {};
}

bool IsInstance(const wire::Ledger& ledger, unsigned gpu) {
  return (wire::Load(ledger.instances) >> gpu & 1) != 0;
}

void SetInstance(wire::Ledger& ledger, unsigned gpu, bool is_instance) {
  const std::uint32_t others = wire::Load(ledger.instances) & ~(1u << gpu);
  wire::Store(ledger.instances, others | std::uint32_t{is_instance} << gpu);
}

// The two entries are each other's GPU from now on; their limits are not exchanged.
void Exchange(wire::Ledger& ledger, unsigned one, unsigned other) {
  wire::Gpu &of_one = ledger.gpu[one], &of_other = ledger.gpu[other];
  std::swap(of_one.uuid, of_other.uuid);
  for (const auto word : {&wire::Gpu::outside, &wire::Gpu::sampled_at}) {
    const std::uint64_t before = wire::Load(of_one.*word);
    wire::Store(of_one.*word, wire::Load(of_other.*word));
    wire::Store(of_other.*word, before);
  }
  const bool was_instance = IsInstance(ledger, one);
  SetInstance(ledger, one, IsInstance(ledger, other));
  SetInstance(ledger, other, was_instance);
}

// The index of the UUID in the ledger; takes a new one where the UUID has none yet.
std::optional<unsigned> GpuIndexFor(wire::Ledger& ledger, std::string_view text) {
  const auto uuid = ParseUuid(text);
  if (!uuid) return std::nullopt;
  if (const auto found = IndexOf(ledger, text)) return found;
  const unsigned fresh = wire::GpusOf(ledger);
  if (fresh == wire::kMaxGpus) return std::nullopt;
  wire::Store(ledger.gpu[fresh].limit, wire::kNoLimit);
  wire::Store(ledger.gpu[fresh].soft, wire::kNoLimit);
  wire::Store(ledger.gpu[fresh].room, wire::kNoLimit);
  std::memcpy(ledger.gpu[fresh].uuid, uuid->data(), uuid->size());
  SetInstance(ledger, fresh, text.starts_with(kInstancePrefix));
  __atomic_store_n(&ledger.gpus, fresh + 1, __ATOMIC_RELEASE);
  return fresh;
}

bool Write(wire::Ledger& ledger, std::span<const GpuLimit> limits) {
  bool room = true;
  std::uint32_t named = 0;
  for (const GpuLimit& limit : limits) {
    const auto gpu = GpuIndexFor(ledger, limit.uuid);
    if (!gpu) {
      room = false;
      continue;
    }
    named |= 1u << *gpu;
    wire::Store(ledger.gpu[*gpu].limit, Word(limit.hard));
    wire::Store(ledger.gpu[*gpu].soft, Word(limit.soft));
    wire::Store(ledger.gpu[*gpu].context_bytes, limit.context.count);
  }
  for (unsigned gpu = 0; gpu < wire::GpusOf(ledger); ++gpu) {
    if ((named >> gpu & 1) != 0) continue;
    wire::Store(ledger.gpu[gpu].limit, wire::kNoLimit);
    wire::Store(ledger.gpu[gpu].soft, wire::kNoLimit);
  }
  __atomic_fetch_add(&ledger.changes, 1, __ATOMIC_RELEASE);
  return room;
}

std::uint32_t PatienceWord(const EvictionSettings& eviction) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(eviction.patience.count(), 0, INT32_MAX));
}

void Write(wire::Ledger& ledger, const EvictionSettings& eviction) {
  const auto backing = eviction.possible ? wire::AllocationMode::kEvictable : wire::AllocationMode::kPlain;
  wire::Store(ledger.host_budget, Word(eviction.host_budget));
  wire::Store(ledger.patience_ms, PatienceWord(eviction));
  wire::Store(ledger.backing, static_cast<std::uint32_t>(backing));
  wire::Store(ledger.features, wire::kFeatureHomes | wire::kFeaturePeaks);
}

bool Says(const wire::Ledger& ledger, const EvictionSettings& eviction) {
  return wire::Load(ledger.host_budget) == Word(eviction.host_budget) &&
         wire::Load(ledger.patience_ms) == PatienceWord(eviction) &&
         (wire::Load(ledger.backing) == static_cast<std::uint32_t>(wire::AllocationMode::kEvictable)) ==
             eviction.possible;
}

}  // namespace

std::optional<std::array<std::uint8_t, 16>> ParseUuid(std::string_view text) {
  for (const std::string_view prefix : {kGpuPrefix, kInstancePrefix})
    if (text.starts_with(prefix)) {
      text.remove_prefix(prefix.size());
      break;
    }
  std::array<std::uint8_t, 16> bytes{};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const int value = base::HexDigit(c);
    if (value < 0 || digits >= 2 * bytes.size()) return std::nullopt;
    bytes[digits / 2] = static_cast<std::uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 2 * bytes.size()) return std::nullopt;
  return bytes;
}

std::string UuidAt(const wire::Ledger& ledger, unsigned gpu) {
  return std::string(IsInstance(ledger, gpu) ? kInstancePrefix : kGpuPrefix) +
         base::FormatUuid(ledger.gpu[gpu].uuid);
}

std::optional<unsigned> IndexOf(const wire::Ledger& ledger, std::string_view uuid) {
  const auto bytes = ParseUuid(uuid);
  const int gpu = bytes ? wire::FindGpu(ledger, bytes->data()) : -1;
  return gpu >= 0 ? std::optional(static_cast<unsigned>(gpu)) : std::nullopt;
}

Result<> Ledgers::Add(JobId job, Result<LedgerMapping> page, std::span<const GpuLimit> limits,
                      const EvictionSettings& eviction) {
  if (jobs_.contains(job))
    return Fail(ErrorCode::kAlreadyExists, fmt::format("job {} has a ledger already", job.value));
  if (!page) return Fail(std::move(page).error());
  GPUMAN_TRY(Validate(limits));
  if (!limits.empty() && !Write(**page, limits))
    return Fail(ErrorCode::kCorrupt,
                fmt::format("the ledger of job {} has no room left for a GPU", job.value));
  Write(**page, eviction);
  WriteSampled(**page);
  jobs_.emplace(job, Entry{std::move(*page), {limits.begin(), limits.end()}, eviction, {}});
  return {};
}

Result<> Ledgers::Create(JobId job, std::span<const GpuLimit> limits, const EvictionSettings& eviction) {
  return Add(job, LedgerMapping::Create(job.value), limits, eviction);
}

Result<> Ledgers::Adopt(JobId job, Fd file, std::span<const GpuLimit> limits,
                        const EvictionSettings& eviction) {
  GPUMAN_TRY(Add(job, LedgerMapping::Adopt(std::move(file), job.value), limits, eviction));
  TakeOver(jobs_.at(job));
  return {};
}

Result<> Ledgers::Restore(JobId job, std::string_view bytes, std::span<const GpuLimit> limits,
                          const EvictionSettings& eviction) {
  GPUMAN_TRY(Add(job, LedgerMapping::Restore(bytes, job.value), limits, eviction));
  TakeOver(jobs_.at(job));
  return {};
}

Result<Fd> Ledgers::FileOf(JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  return found->second.page.Open();
}

Result<> Ledgers::SetLimits(JobId job, std::span<const GpuLimit> limits) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  GPUMAN_TRY(Validate(limits));
  if (!Write(*found->second.page, limits))
    return Fail(ErrorCode::kUnsatisfiable,
                fmt::format("the ledger of job {} has no room left for a GPU", job.value));
  WriteSampled(*found->second.page);
  found->second.limits.assign(limits.begin(), limits.end());
  return {};
}

// A process knows a GPU by its index in the ledger, and cannot ask the driver for another one: the GPU of the
// index changes in its place. The two entries exchange what the daemon writes.
std::optional<std::string> Ledgers::FollowMove(JobId job, std::string_view uuid) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  Entry& entry = found->second;
  const auto there = IndexOf(*entry.page, uuid), moved = OnlyCountedGpu(entry);
  if (!there || !moved || *there == *moved) return std::nullopt;
  const auto before = std::ranges::find_if(
      entry.limits, [&](const GpuLimit& limit) { return IndexOf(*entry.page, limit.uuid) == moved; });
  if (before == entry.limits.end()) return std::nullopt;
  Exchange(*entry.page, *there, *moved);
  std::swap(entry.room.try_emplace(*there, wire::kNoLimit).first->second,
            entry.room.try_emplace(*moved, wire::kNoLimit).first->second);
  WriteSharing(entry);
  Write(*entry.page, entry.limits);
  return before->uuid;
}

// The index of the GPU where alone the job's processes count anything; nullopt: there are several, or none.
std::optional<unsigned> Ledgers::OnlyCountedGpu(const Entry& entry) {
  std::optional<unsigned> only;
  for (const auto& [slot, member] : entry.members) {
    if (!wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    for (unsigned gpu = 0; gpu < wire::GpusOf(*entry.page); ++gpu) {
      if (wire::BytesOf(*entry.page, gpu, slot) == 0) continue;
      if (only && *only != gpu) return std::nullopt;
      only = gpu;
    }
  }
  return only;
}

void Ledgers::SetEviction(JobId job, const EvictionSettings& eviction) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  Entry& entry = found->second;
  EvictionSettings now = eviction;
  now.possible = entry.eviction.possible;
  if (now == entry.eviction) return;
  entry.eviction = now;
  Write(*entry.page, entry.eviction);
}

void Ledgers::SetUncounted(JobId job, std::string_view uuid, base::Bytes bytes) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  wire::Ledger& ledger = *found->second.page;
  if (const auto gpu = IndexOf(ledger, uuid)) wire::Store(ledger.gpu[*gpu].outside, bytes.count);
}

void Ledgers::SetSampled(std::string_view uuid, base::MonoTime began) {
  const auto parsed = ParseUuid(uuid);
  if (!parsed) return;
  const std::chrono::nanoseconds at = began.time_since_epoch();
  sampled_[*parsed] = static_cast<std::uint64_t>(at.count());
  for (auto& [job, entry] : jobs_) WriteSampled(*entry.page);
}

void Ledgers::WriteSampled(wire::Ledger& ledger) const {
  for (const auto& [uuid, at] : sampled_)
    if (const int gpu = wire::FindGpu(ledger, uuid.data()); gpu >= 0)
      wire::Store(ledger.gpu[gpu].sampled_at, at);
}

void Ledgers::Drop(JobId job) { jobs_.erase(job); }

Result<JoinedSlot> Ledgers::Join(JobId job, base::ProcessId process) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  Entry& entry = found->second;
  JoinedSlot joined;
  GPUMAN_ASSIGN(joined.owner, entry.page.Open());
  GPUMAN_ASSIGN(joined.file, entry.page.Open());
  for (unsigned slot = 0; slot < wire::kProcessSlots; ++slot) {
    if (!wire::LockSlot(joined.owner.get(), slot)) continue;
    wire::Ledger& ledger = *entry.page;
    wire::Clear(ledger, slot);  // the slot may still count memory of a process that has ended
    const auto order = static_cast<std::uint32_t>(entry.joining.what);
    const OrderBytes bytes = OrderBytesOf(entry, slot, entry.joining);
    wire::Store(ledger.slot[slot].order_bytes, bytes.slot);
    wire::Store(ledger.slot[slot].order, order);
    FreePeaks(entry);
    wire::Store(ledger.slot[slot].start_time, process.start_time);
    __atomic_store_n(&ledger.slot[slot].pid, static_cast<std::uint32_t>(process.pid), __ATOMIC_RELEASE);
    entry.members[slot] = {process, order, bytes, 0};
    joined.slot = slot;
    return joined;
  }
  return Fail(ErrorCode::kExhausted,
              fmt::format("job {} has {} processes that count their memory; there is room for no more",
                          job.value, wire::kProcessSlots));
}

std::optional<unsigned> Ledgers::SlotOf(const Entry& entry, base::ProcessId process) {
  for (const auto& [slot, member] : entry.members) {
    if (member.process == process && wire::SlotIsLocked(entry.page.descriptor(), slot)) return slot;
  }
  return std::nullopt;
}

bool Ledgers::Registered(JobId job, base::ProcessId process) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && SlotOf(found->second, process).has_value();
}

std::optional<base::ProcessId> Ledgers::RegisteredPid(JobId job, pid_t pid) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  for (const auto& [slot, member] : found->second.members)
    if (member.process.pid == pid && wire::SlotIsLocked(found->second.page.descriptor(), slot))
      return member.process;
  return std::nullopt;
}

// The slot is looked up only once: a moment later the process may have ended, and the ledger may have
// changed.
std::optional<Ledgers::Account> Ledgers::AccountOf(JobId job, base::ProcessId process,
                                                   std::string_view uuid) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  const auto slot = SlotOf(found->second, process);
  wire::Ledger& ledger = *found->second.page;
  const auto gpu = IndexOf(ledger, uuid);
  if (!slot || !gpu) return std::nullopt;
  return Account{&ledger, *slot, *gpu};
}

std::optional<base::Bytes> Ledgers::OnGpuOf(JobId job, base::ProcessId process, std::string_view uuid) const {
  const auto at = AccountOf(job, process, uuid);
  if (!at) return std::nullopt;
  const base::Bytes held{wire::BytesOf(*at->ledger, at->gpu, at->slot)};
  const wire::Slot& slot = at->ledger->slot[at->slot];
  if (const int further = wire::FindHome(*at->ledger, at->slot, at->gpu); further >= 0)
    return held - base::Bytes{wire::Load(at->ledger->home[further].evicted)};
  const std::uint32_t home = wire::Load(slot.home);
  return home != 0 && home != at->gpu + 1 ? held : held - base::Bytes{wire::Load(slot.evicted)};
}

bool Ledgers::IsMoving(JobId job, base::ProcessId process, std::string_view uuid) const {
  const auto at = AccountOf(job, process, uuid);
  if (!at) return false;
  const auto residency = static_cast<wire::MemoryResidency>(wire::Load(at->ledger->slot[at->slot].residency));
  return residency == wire::MemoryResidency::kEvicting || residency == wire::MemoryResidency::kRestoring;
}

std::uint64_t Ledgers::OrdersOf(JobId job, base::ProcessId process, std::string_view uuid) const {
  const auto at = AccountOf(job, process, uuid);
  if (!at) return 0;
  const wire::Slot& slot = at->ledger->slot[at->slot];
  return std::uint64_t{wire::Load(slot.order)} << 32 | wire::Load(slot.answered);
}

std::vector<GpuUsage> Ledgers::UsageOf(JobId job) const {
  std::vector<GpuUsage> usage;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return usage;
  const wire::Ledger& ledger = *found->second.page;
  for (const GpuLimit& limit : found->second.limits)
    if (const auto gpu = IndexOf(ledger, limit.uuid))
      usage.push_back({limit.uuid, {wire::TotalOf(ledger, *gpu)}});
  return usage;
}

LockCost Ledgers::LockCostOf(JobId job) const {
  const Entry& entry = jobs_.at(job);
  const auto time = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  LockCost cost{std::chrono::nanoseconds::max(), entry.members.size()};
  for (int i = 0; i < 3; ++i) {
    const auto began = time();
    (void)wire::SlotIsLocked(entry.page.descriptor(),
                             wire::kSlots);  // nobody's: the kernel looks at all locks
    cost.question = std::min(cost.question, time() - began);
  }
  return cost;
}

bool Ledgers::Intact(JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return false;
  const wire::Ledger& ledger = *found->second.page;
  if (wire::Load(ledger.magic) != wire::kMagic || wire::Load(ledger.version) != wire::kVersion ||
      wire::Load(ledger.job) != static_cast<std::uint64_t>(job.value) ||
      wire::Load(ledger.gpus) > wire::kMaxGpus || !Says(ledger, found->second.eviction))
    return false;
  for (const auto& [slot, member] : found->second.members) {
    if (wire::SlotIsLocked(found->second.page.descriptor(), slot) &&
        wire::Load(ledger.slot[slot].order) != member.order)
      return false;
  }
  return std::ranges::all_of(found->second.limits, [&](const GpuLimit& limit) {
    const auto gpu = IndexOf(ledger, limit.uuid);
    return gpu && wire::Load(ledger.gpu[*gpu].limit) == Word(limit.hard) &&
           wire::Load(ledger.gpu[*gpu].soft) == Word(limit.soft);
  });
}

}  // namespace gpuman::ledger
