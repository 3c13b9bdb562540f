#include "daemon/shims/ledger_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ledger/wire/layout.h"

namespace gpuman::daemon {

namespace {

// An entry in a ledger is taken for good, and instances come and go. So of instances only those that the job
// can have get an entry.
std::vector<gpu::Gpu> LimitedGpusOf(const jobs::Job& job, const gpu::Inventory& inventory) {
  std::vector<gpu::Gpu> gpus;
  if (job.gpus.empty() && !job.queued) gpus = gpu::VisibleByDefault(inventory.gpus);
  std::erase_if(gpus, [](const gpu::Gpu& gpu) { return !gpu.mig; });
  for (const auto& gpu : inventory.gpus)
    if (!gpu.mig || std::find(job.gpus.begin(), job.gpus.end(), gpu.uuid) != job.gpus.end())
      gpus.push_back(gpu);
  std::stable_partition(gpus.begin(), gpus.end(), [](const gpu::Gpu& gpu) { return gpu.mig.has_value(); });
  return gpus;
}

}  // namespace

std::vector<ledger::GpuLimit> LedgerLimitsOf(const jobs::Job& job, const gpu::Inventory& inventory) {
  std::vector<ledger::GpuLimit> limits;
  for (const auto& gpu : LimitedGpusOf(job, inventory)) {
    if (!ledger::ParseUuid(gpu.uuid)) continue;
    if (limits.size() == ledger::wire::kMaxGpus) break;
    ledger::GpuLimit limit;
    limit.uuid = gpu.uuid;
    if (job.spec->memory) limit.hard = job.spec->memory->Of(gpu.memory);
    if (job.spec->soft) limit.soft = job.spec->soft->Of(gpu.memory);
    limits.push_back(std::move(limit));
  }
  return limits;
}

std::optional<std::string> TightLimit(const jobs::Job& job, const gpu::Inventory& inventory,
                                      const ContextCost& context_on) {
  if (!job.spec->memory) return std::nullopt;
  std::optional<std::string> tight;
  bool all = true;
  for (const auto& gpu : inventory.gpus) {
    const bool has = std::find(job.gpus.begin(), job.gpus.end(), gpu.uuid) != job.gpus.end();
    if (gpu.split || (job.gpus.empty() ? gpu.mig.has_value() : !has)) continue;
    const auto context = context_on(gpu.uuid);
    const auto limit = job.spec->memory->Of(gpu.memory);
    if (!context) continue;
    if (limit >= *context)
      all = false;
    else if (!tight)
      tight = fmt::format(
          "its limit of {} is less than a CUDA context takes on GPU {} ({}): programs that use CUDA will be "
          "out of "
          "memory at once",
          base::FormatBytes(limit), gpu::NumberOf(gpu), base::FormatBytes(*context));
  }
  return jobs::IsWaiting(job) && !all ? std::nullopt : tight;
}

std::optional<jobs::JobNotice> WideLimit(const jobs::Job& job, const gpu::Inventory& inventory,
                                         base::Bytes peak) {
  constexpr std::uint64_t kWide = 3;
  constexpr std::uint64_t kStep = std::uint64_t{64} << 20;
  std::optional<base::Bytes> limit;
  for (const auto& each : LedgerLimitsOf(job, inventory)) {
    const bool has = std::find(job.gpus.begin(), job.gpus.end(), each.uuid) != job.gpus.end();
    if (each.hard && (has || job.gpus.empty())) limit = std::min(limit.value_or(*each.hard), *each.hard);
  }
  if (!limit || peak.count == 0 || limit->count / kWide < peak.count) return std::nullopt;
  const base::Bytes enough{(peak.count + peak.count / 10 + kStep - 1) / kStep * kStep};
  return jobs::JobNotice{
      "limit_above_need",
      fmt::format(
          "its limit was {} on each GPU, and it used {} at most: `--memory {}` is enough for such a run",
          base::FormatBytes(*limit), base::FormatBytes(peak), base::FormatBytes(enough)),
      {{"limit", static_cast<std::int64_t>(limit->count)},
       {"peak", static_cast<std::int64_t>(peak.count)},
       {"enough", static_cast<std::int64_t>(enough.count)}}};
}

std::vector<int> UnshimmedOf(base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
                             const std::function<bool(base::JobId, base::ProcessId)>& counts) {
  std::set<int> pids;
  for (const auto& [uuid, status] : gpus) {
    for (const auto& process : status.processes) {
      if (process.job == job && !counts(job, process.id)) pids.insert(process.id.pid);
    }
  }
  return {pids.begin(), pids.end()};
}

std::optional<std::string> OverLimit(const api::JobView& view, base::Bytes overhead, base::Millis patience) {
  const auto& [limit, used] = std::pair(view.memory.limit, view.memory.used);
  if (view.state != spec::JobState::kRunning || !limit || !used || *used <= *limit) return std::nullopt;
  const bool counts = view.unshimmed && view.unshimmed->empty();
  const auto over = used->count - limit->count;
  if (counts && over <= std::min(overhead.count, limit->count / 4)) return std::nullopt;
  return fmt::format("it uses {}, more than its limit of {}: it is ended{}", base::FormatBytes(*used),
                     base::FormatBytes(*limit),
                     counts ? fmt::format(" unless it gives memory back within {}; gpuman update raises the "
                                          "limit",
                                          base::FormatDuration(patience))
                            : std::string(" at once, as not all its processes count their memory"));
}

}  // namespace gpuman::daemon
