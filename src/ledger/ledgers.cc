#include "ledger/ledgers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ledger/wire/books.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::JobId;
using base::Result;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::uint64_t Word(const std::optional<base::Bytes>& limit) { return limit ? limit->count : wire::kNoLimit; }

Result<> Validate(std::span<const GpuLimit> limits) {
  if (limits.size() > wire::kMostGpus)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} GPUs; a job has at most {}", limits.size(), wire::kMostGpus));
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

// The index that the UUID has in the ledger; taken for it where it has none yet.
std::optional<unsigned> Place(wire::Ledger& ledger, std::string_view text) {
  const auto uuid = ParseUuid(text);
  if (!uuid) return std::nullopt;
  if (const int found = wire::FindGpu(ledger, uuid->data()); found >= 0) return static_cast<unsigned>(found);
  if (ledger.gpus >= wire::kMostGpus) return std::nullopt;
  const unsigned fresh = ledger.gpus;
  wire::Store(ledger.gpu[fresh].limit, wire::kNoLimit);
  wire::Store(ledger.gpu[fresh].soft, wire::kNoLimit);
  std::memcpy(ledger.gpu[fresh].uuid, uuid->data(), uuid->size());
  __atomic_store_n(&ledger.gpus, fresh + 1, __ATOMIC_RELEASE);
  return fresh;
}

bool Write(wire::Ledger& ledger, std::span<const GpuLimit> limits) {
  bool room = true;
  std::uint32_t named = 0;
  for (const GpuLimit& limit : limits) {
    const auto gpu = Place(ledger, limit.uuid);
    if (!gpu) {
      room = false;
      continue;
    }
    named |= 1u << *gpu;
    wire::Store(ledger.gpu[*gpu].limit, Word(limit.hard));
    wire::Store(ledger.gpu[*gpu].soft, Word(limit.soft));
    wire::Store(ledger.gpu[*gpu].context_bytes, limit.context.count);
  }
  for (unsigned gpu = 0; gpu < std::min(ledger.gpus, wire::kMostGpus); ++gpu) {
    if ((named >> gpu & 1) != 0) continue;
    wire::Store(ledger.gpu[gpu].limit, wire::kNoLimit);
    wire::Store(ledger.gpu[gpu].soft, wire::kNoLimit);
  }
  __atomic_fetch_add(&ledger.changes, 1, __ATOMIC_RELEASE);
  return room;
}

}  // namespace

std::optional<std::array<std::uint8_t, 16>> ParseUuid(std::string_view text) {
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) text.remove_prefix(4);
  std::array<std::uint8_t, 16> bytes{};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const int value = HexDigit(c);
    if (value < 0 || digits >= 2 * bytes.size()) return std::nullopt;
    bytes[digits / 2] = static_cast<std::uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 2 * bytes.size()) return std::nullopt;
  return bytes;
}

Result<> Ledgers::Add(JobId job, Result<Page> page, std::span<const GpuLimit> limits) {
  if (jobs_.contains(job))
    return Fail(ErrorCode::kAlreadyExists, fmt::format("job {} has a ledger already", job.value));
  if (!page) return Fail(std::move(page).error());
  GPUMAN_TRY(Validate(limits));
  if (!Write(**page, limits))
    return Fail(ErrorCode::kCorrupt,
                fmt::format("the ledger of job {} has no room left for a GPU", job.value));
  jobs_.emplace(job, Entry{std::move(*page), {limits.begin(), limits.end()}, {}});
  return {};
}

Result<> Ledgers::Create(JobId job, std::span<const GpuLimit> limits) {
  return Add(job, Page::Create(job.value), limits);
}

Result<> Ledgers::Adopt(JobId job, Fd file, std::span<const GpuLimit> limits) {
  GPUMAN_TRY(Add(job, Page::Adopt(std::move(file), job.value), limits));
  // Whoever sits there already. What the page says of them may be made up, but only of this job's slots, and
  // is asked about by pid and start time.
  Entry& entry = jobs_.at(job);
  for (unsigned slot = 0; slot < wire::kSlots; ++slot) {
    const auto pid = __atomic_load_n(&entry.page->slot[slot].pid, __ATOMIC_ACQUIRE);
    if (pid != 0 && pid <= INT32_MAX && wire::SlotIsLocked(entry.page.descriptor(), slot))
      entry.seats[slot] = {static_cast<pid_t>(pid), entry.page->slot[slot].start_time};
  }
  return {};
}

Result<> Ledgers::SetLimits(JobId job, std::span<const GpuLimit> limits) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  GPUMAN_TRY(Validate(limits));
  if (!Write(*found->second.page, limits))
    return Fail(ErrorCode::kUnsatisfiable,
                fmt::format("the ledger of job {} has no room left for a GPU", job.value));
  found->second.limits.assign(limits.begin(), limits.end());
  return {};
}

void Ledgers::SetOutside(JobId job, std::string_view uuid, base::Bytes bytes) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  wire::Ledger& ledger = *found->second.page;
  const auto parsed = ParseUuid(uuid);
  const int gpu = parsed ? wire::FindGpu(ledger, parsed->data()) : -1;
  if (gpu >= 0) wire::Store(ledger.gpu[gpu].outside, bytes.count);
}

void Ledgers::Drop(JobId job) { jobs_.erase(job); }

Result<Seat> Ledgers::Join(JobId job, base::ProcessId process) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  Entry& entry = found->second;
  Seat seat;
  GPUMAN_ASSIGN(seat.owner, entry.page.Open());
  GPUMAN_ASSIGN(seat.file, entry.page.Open());
  for (unsigned slot = 0; slot < wire::kSlots; ++slot) {
    if (!wire::LockSlot(seat.owner.get(), slot)) continue;
    wire::Ledger& ledger = *entry.page;
    wire::Clear(ledger, slot);  // of a process that has ended
    ledger.slot[slot].start_time = process.start_time;
    __atomic_store_n(&ledger.slot[slot].pid, static_cast<std::uint32_t>(process.pid), __ATOMIC_RELEASE);
    entry.seats[slot] = process;
    seat.slot = slot;
    return seat;
  }
  return Fail(ErrorCode::kExhausted,
              fmt::format("job {} has {} processes that count their memory; there is room for no more",
                          job.value, wire::kSlots));
}

std::optional<unsigned> Ledgers::SlotOf(const Entry& entry, base::ProcessId process) {
  for (const auto& [slot, owner] : entry.seats) {
    if (owner == process && wire::SlotIsLocked(entry.page.descriptor(), slot)) return slot;
  }
  return std::nullopt;
}

bool Ledgers::Registered(JobId job, base::ProcessId process) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && SlotOf(found->second, process).has_value();
}

std::optional<base::Bytes> Ledgers::HeldBy(JobId job, base::ProcessId process, std::string_view uuid) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  const auto slot = SlotOf(found->second, process);
  wire::Ledger& ledger = *found->second.page;
  const auto parsed = ParseUuid(uuid);
  const int gpu = parsed ? wire::FindGpu(ledger, parsed->data()) : -1;
  if (!slot || gpu < 0) return std::nullopt;
  return base::Bytes{wire::BytesOf(ledger, static_cast<unsigned>(gpu), *slot)};
}

unsigned Ledgers::Reclaim(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return 0;
  Entry& entry = found->second;
  unsigned gone = 0;
  for (unsigned slot = 0; slot < wire::kSlots; ++slot) {
    if (!entry.seats.contains(slot) && entry.page->slot[slot].pid == 0) continue;
    if (!wire::LockSlot(entry.page.descriptor(), slot)) continue;
    wire::Clear(*entry.page, slot);
    wire::UnlockSlot(entry.page.descriptor(), slot);
    entry.seats.erase(slot);
    ++gone;
  }
  return gone;
}

std::vector<GpuUsage> Ledgers::UsageOf(JobId job) const {
  std::vector<GpuUsage> usage;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return usage;
  const wire::Ledger& ledger = *found->second.page;
  for (const GpuLimit& limit : found->second.limits) {
    const auto uuid = ParseUuid(limit.uuid);
    const int gpu = uuid ? wire::FindGpu(ledger, uuid->data()) : -1;
    if (gpu >= 0) usage.push_back({limit.uuid, {wire::TotalOf(ledger, static_cast<unsigned>(gpu))}});
  }
  return usage;
}

bool Ledgers::Intact(JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return false;
  const wire::Ledger& ledger = *found->second.page;
  if (ledger.magic != wire::kMagic || ledger.version != wire::kVersion ||
      ledger.job != static_cast<std::uint64_t>(job.value) || ledger.gpus > wire::kMostGpus)
    return false;
  return std::ranges::all_of(found->second.limits, [&](const GpuLimit& limit) {
    const auto uuid = ParseUuid(limit.uuid);
    const int gpu = uuid ? wire::FindGpu(ledger, uuid->data()) : -1;
    return gpu >= 0 && ledger.gpu[gpu].limit == Word(limit.hard) && ledger.gpu[gpu].soft == Word(limit.soft);
  });
}

}  // namespace gpuman::ledger
