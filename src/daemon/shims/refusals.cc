#include "daemon/shims/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "jobs/lifecycle.h"

namespace gpuman::daemon {
namespace {

std::string_view WordOf(ledger::wire::RefusedBy by) {
  switch (by) {
    case ledger::wire::RefusedBy::kSharing:
      return "sharing";
    case ledger::wire::RefusedBy::kDevice:
      return "device";
    default:
      return "limit";
  }
}

// "256MiB", "a context of 500MiB".
std::string AskedBy(const jobs::RefusedAllocation& refusal) {
  if (!refusal.context) return base::FormatBytes(refusal.asked);
  return refusal.asked.count == 0 ? "a context" : "a context of " + base::FormatBytes(refusal.asked);
}

// The command that gives the job a larger limit.
std::string MoreFor(const jobs::Job& job, const std::string& name) {
  const bool is_over = jobs::IsEnded(job) || (job.verdict && job.spec->restart == spec::RestartMode::kNo);
  if (!is_over) return fmt::format("gpuman update {} --memory SIZE", name);
  if (job.queued) return fmt::format("gpuman job redo {} --memory SIZE", job.id.value);
  return fmt::format("gpuman restart {} --memory SIZE", name);
}

std::string TimesOf(const jobs::RefusedAllocation& refusal) {
  const auto count = refusal.count.value_or(1);
  return count > 1 ? fmt::format("; the run was refused memory {} times there", count) : "";
}

// A program can have written any numbers.
bool IsFirstKnown(const ledger::FirstAndLastRefusal& seen) {
  constexpr std::uint64_t kMaxCounted = std::numeric_limits<std::int32_t>::max();
  return seen.first && seen.last.number - seen.first->number < kMaxCounted;
}

}  // namespace

std::uint64_t CountOf(const ledger::FirstAndLastRefusal& seen) {
  return IsFirstKnown(seen) ? seen.last.number - seen.first->number + 1 : 1;
}

jobs::RefusedAllocation RefusalOf(const ledger::FirstAndLastRefusal& seen, base::MonoTime mono_now,
                                  base::WallTime wall_now) {
  const auto now = static_cast<std::uint64_t>(std::chrono::nanoseconds(mono_now.time_since_epoch()).count());
  // The program may have written any time into the ledger.
  const auto when = [&](std::uint64_t at) {
    const std::uint64_t ns = now - std::min(at, now);
    return wall_now - base::Millis{static_cast<std::int64_t>(ns / 1'000'000)};
  };
  const ledger::Refusal& last = seen.last;
  jobs::RefusedAllocation refusal{
      last.uuid, last.asked, last.used, last.limit, std::string(WordOf(last.by)), when(last.at)};
  refusal.context = last.is_context;
  refusal.parts = last.parts;
  refusal.pools_unused = last.pools_unused;
  refusal.device_free = last.device_free;
  if (!IsFirstKnown(seen)) return refusal;
  refusal.count = static_cast<std::int64_t>(CountOf(seen));
  const ledger::Refusal& first = *seen.first;
  refusal.first = {first.asked, first.used,         first.limit,      when(first.at),
                   first.parts, first.pools_unused, first.device_free};
  return refusal;
}

std::string Sentence(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                     const gpu::Inventory& inventory, const std::string& name) {
  const auto asked = AskedBy(refusal);
  auto used = base::FormatBytes(refusal.used);
  if (refusal.parts) used += fmt::format(" ({})", base::FormatParts(*refusal.parts, refusal.pools_unused));
  const auto* const known = gpu::FindGpu(inventory, refusal.gpu);
  const auto gpu = gpu::NameOf(inventory, refusal.gpu);
  const auto total = known ? known->memory : base::Bytes{};
  if (total.count > 0 && refusal.asked > total)
    return fmt::format(
        "{} was refused on {}, which has {} in all; with `gpuman run --oversubscribe` a process may have "
        "more "
        "than its GPU, which is slow",
        asked, gpu, base::FormatBytes(total));
  if (refusal.by == "limit")
    return fmt::format("{} was refused at its limit of {} on {}, of which it used {}{}; `{}` gives it more",
                       asked, refusal.limit ? base::FormatBytes(*refusal.limit) : "?", gpu, used,
                       TimesOf(refusal), MoreFor(job, name.empty() ? job.tag : name));
  if (refusal.by == "sharing")
    return fmt::format(
        "{} was refused on {}, where it used {}: those that share the GPU made no room for it in time; "
        "`gpuman share status` shows who has it",
        asked, gpu, used);
  return fmt::format(
      "{} was refused on {}, where it used {}: the GPU had no memory left; `gpuman proclist` shows who has "
      "it",
      asked, gpu, used);
}

api::RefusedAllocationView ViewOf(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                                  const gpu::Inventory& inventory, const std::string& name) {
  api::RefusedAllocationView view{refusal.gpu,
                                  refusal.asked,
                                  refusal.used,
                                  refusal.limit,
                                  refusal.by,
                                  refusal.at,
                                  Sentence(job, refusal, inventory, name)};
  view.context = refusal.context;
  view.count = refusal.count;
  if (const auto& first = refusal.first)
    view.first = {first->asked, first->used,         first->limit,      first->at,
                  first->parts, first->pools_unused, first->device_free};
  view.parts = refusal.parts;
  view.pools_unused = refusal.pools_unused;
  view.device_free = refusal.device_free;
  return view;
}

void Explain(jobs::Job& job, const gpu::Inventory& inventory, base::WallTime ended, const std::string& name) {
  if (!job.refusal || job.verdict != spec::JobState::kFailed) return;
  job.reason_detail = fmt::format("{}; {}", job.reason_detail.value_or(job.reason.value_or("failed")),
                                  Sentence(job, *job.refusal, inventory, name));
  if (jobs::FailedByItself(job) && job.refusal->MayHaveEnded(ended))
    job.reason = std::string(jobs::kMemoryRefusedWord);
}

bool RefusalEventLimiter::Tells(base::JobId job, base::MonoTime now) {
  const auto [it, fresh] = reported_.try_emplace(job, now);
  if (!fresh && now - it->second < kAtMostEvery) return false;
  it->second = now;
  return true;
}

}  // namespace gpuman::daemon
