#include "daemon/queue/memory_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "jobs/lifecycle.h"
#include "queue/memory_estimate.h"

namespace gpuman::daemon {
namespace {

// The words of RunAccount::outcome for runs that had the time they needed, or were given.
bool CameToItsEnd(const jobs::RunAccount& run) {
  return run.outcome == ToString(spec::JobState::kFinished) ||
         run.outcome == ToString(spec::JobState::kTimeout);
}

bool IsGuardsEnd(const jobs::Job& job) {
  return job.verdict == spec::JobState::kKilled && job.reason == jobs::kMemoryLimitWord;
}

}  // namespace

std::optional<queue::PastRun> PastRunOf(const jobs::RunAccount& run) {
  const base::Bytes peak = run.peak.value_or(base::Bytes{});
  if (run.gpus.empty() || peak.count == 0) return std::nullopt;
  return queue::PastRun{run.job, run.ended, peak, run.needed.value_or(base::Bytes{}), CameToItsEnd(run)};
}

std::string ChooseMemory(const jobs::Job& job, const MemoryChoiceContext& grounds, spec::JobSpec& spec) {
  const std::string name = jobs::AccountName(job);
  spec.memory.reset();
  spec.memory_on_each.reset();
  const base::Bytes gpu = grounds.updater.MostMemoryFor(spec);
  // A job that shares its GPUs has to have a size. Where no GPU is for it, the queue refuses it.
  if (spec.share && gpu.count > 0) spec.memory = base::SizeSpec{gpu, 0};
  if (jobs::IsInterpreter(name))
    return fmt::format(
        "memory: all of the GPU, as '{}' may run anything; with --name its runs are known from others", name);
  const base::Bytes at_least = spec.soft ? spec.soft->Of(gpu) : base::Bytes{};
  auto estimate = queue::EstimateMemory({name, grounds.past.Of(job.owner->user, name), gpu, at_least});
  if (estimate.size && gpu.count > 0) spec.memory = base::SizeSpec{*estimate.size, 0};
  return std::move(estimate.note);
}

std::optional<MemoryChoice> ChooseMemoryAnew(const jobs::Job& job, const MemoryChoiceContext& grounds) {
  // A job that was refused memory got more than past runs said.
  if (!job.spec->memory_auto || job.more_memory) return std::nullopt;
  MemoryChoice choice{*job.spec, {}};
  choice.note = ChooseMemory(job, grounds, choice.spec);
  if (!choice.spec.memory) return std::nullopt;
  const base::Bytes size = choice.spec.memory->bytes;
  const base::Bytes had = job.spec->memory ? job.spec->memory->bytes : base::Bytes{UINT64_MAX};
  if (size <= had && size.count >= had.count / 10 * 9) return std::nullopt;
  choice.spec.memory_on_each = size;
  return choice;
}

std::optional<jobs::MoreMemory> MoreMemoryAfter(const jobs::Job& job, base::WallTime ended,
                                                const queue::SnapshotUpdater& updater) {
  const spec::JobSpec& spec = *job.spec;
  if (!job.queued || !spec.memory_auto || !spec.memory || job.more_memory) return std::nullopt;
  const auto needed = jobs::NeededMemory(job, ended);
  if (!needed && !IsGuardsEnd(job)) return std::nullopt;
  const base::Bytes had = spec.memory->bytes;
  spec::JobSpec asked = spec;
  asked.memory_on_each.reset();
  const auto next = queue::NextLargerMemory(had, needed.value_or(job.peak.value_or(base::Bytes{})),
                                            updater.MostMemoryFor(asked));
  if (!next) return std::nullopt;
  return jobs::MoreMemory{had, needed ? job.refusal->asked : base::Bytes{}, *next};
}

}  // namespace gpuman::daemon
