#include "daemon/shims/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

// The command that gives the job a larger limit.
std::string MoreFor(const jobs::Job& job) {
  const bool is_over = jobs::IsEnded(job) || (job.verdict && job.spec->restart == spec::RestartMode::kNo);
  if (!is_over) return fmt::format("gpuman update {} --memory SIZE", job.tag);
  if (job.queued) return fmt::format("gpuman job redo {} --memory SIZE", job.id.value);
  return fmt::format("gpuman restart {} --memory SIZE", job.tag);
}

}  // namespace

jobs::RefusedAllocation RefusalOf(const ledger::Refusal& seen, base::MonoTime mono_now,
                                  base::WallTime wall_now) {
  const auto now = static_cast<std::uint64_t>(std::chrono::nanoseconds(mono_now.time_since_epoch()).count());
  // The program may have written any time into the ledger.
  const std::uint64_t ns = now - std::min(seen.at, now);
  const base::Millis age{static_cast<std::int64_t>(ns / 1'000'000)};
  return {seen.uuid, seen.asked, seen.used, seen.limit, std::string(WordOf(seen.by)), wall_now - age};
}

std::string Sentence(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                     const gpu::Inventory& inventory) {
  const auto asked = base::FormatBytes(refusal.asked);
  const auto used = base::FormatBytes(refusal.used);
  const auto* const known = gpu::FindGpu(inventory, refusal.gpu);
  const auto gpu = "GPU " + (known ? gpu::NumberOf(*known) : refusal.gpu);
  const auto total = known ? known->memory : base::Bytes{};
  if (total.count > 0 && refusal.asked > total)
    return fmt::format(
        "{} was refused on {}, which has {} in all; with `gpuman run --oversubscribe` a process may have "
        "more "
        "than its GPU, which is slow",
        asked, gpu, base::FormatBytes(total));
  if (refusal.by == "limit")
    return fmt::format("{} was refused at its limit of {} on {}, of which it used {}; `{}` gives it more",
                       asked, refusal.limit ? base::FormatBytes(*refusal.limit) : "?", gpu, used,
                       MoreFor(job));
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

api::RefusalView ViewOf(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                        const gpu::Inventory& inventory) {
  return {refusal.gpu,
          refusal.asked,
          refusal.used,
          refusal.limit,
          refusal.by,
          refusal.at,
          Sentence(job, refusal, inventory)};
}

void Explain(jobs::Job& job, const gpu::Inventory& inventory) {
  if (!job.refusal || job.verdict != spec::JobState::kFailed) return;
  job.reason_detail = fmt::format("{}; {}", job.reason_detail.value_or(job.reason.value_or("failed")),
                                  Sentence(job, *job.refusal, inventory));
}

bool RefusalTeller::Tells(base::JobId job, base::MonoTime now) {
  const auto [it, fresh] = told_.try_emplace(job, now);
  if (!fresh && now - it->second < kAtMostEvery) return false;
  it->second = now;
  return true;
}

}  // namespace gpuman::daemon
