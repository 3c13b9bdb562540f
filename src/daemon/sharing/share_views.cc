#include "daemon/sharing/share_views.h"

#include <fmt/format.h>

#include <cmath>

#include "share/text.h"

namespace gpuman::daemon {
namespace {

base::Millis MillisOf(share::Span span) { return std::chrono::duration_cast<base::Millis>(span); }

const char* WordOf(share::GatePosition gate) {
  switch (gate) {
    case share::GatePosition::kOpen:
      return "open";
    case share::GatePosition::kClosing:
      return "closing";
    case share::GatePosition::kClosed:
      return "closed";
  }
  return "open";
}

std::string SizeText(const base::SizeSpec& size) {
  return size.IsRelative() ? fmt::format("{}%", size.percent) : base::FormatBytes(size.bytes);
}

// From then on the view names the processes that are not at rest.
constexpr base::Millis kNamesAfter{1000};

void ShowProgress(const JobQuiescer::Progress& progress, api::ShareJob& job) {
  job.resting =
      api::ShareResting{progress.count.units, progress.count.at_rest, progress.calls, progress.took.count()};
  if (progress.took >= kNamesAfter && !progress.why.empty())
    job.detail =
        fmt::format("is not at rest after {}: {}", base::FormatDuration(progress.took), progress.why);
}

api::ShareJob ViewOf(const share::TenantStatus& tenant, const ShareViewSources& sources) {
  api::ShareJob job;
  job.id = tenant.tenant.value;
  job.tag = sources.tag_of(tenant.tenant);
  job.in_run_set = tenant.in_run_set;
  job.gate = WordOf(tenant.gate);
  job.activity = ToString(tenant.activity);
  job.suspended = tenant.suspended;
  if (!tenant.waits_for.empty()) job.waits_for = tenant.waits_for;
  if (tenant.obstacle && *tenant.obstacle == tenant.tenant)
    job.detail = "does not yield: " + tenant.why;
  else if (tenant.obstacle)
    job.detail = fmt::format("job {} does not yield: {}", tenant.obstacle->value, tenant.why);
  job.waiting = MillisOf(tenant.waiting);
  job.had_turn = MillisOf(tenant.had_turn);
  const share::TenantOptions& options = tenant.options;
  job.weight = options.weight;
  job.priority = options.priority;
  if (options.interactive || tenant.learned_interactive)
    job.interactive = options.interactive ? "asked" : "learned";
  if (options.compute)
    job.compute = {static_cast<int>(std::lround(100 * options.compute->part)), options.compute->may_exceed};
  job.latency = options.latency;
  if (tenant.longest_unit) job.longest_unit = MillisOf(*tenant.longest_unit);
  job.compute_part = tenant.compute_part;
  job.compute_had = tenant.compute_had;
  job.waits.count = tenant.waits.count;
  if (tenant.waits.count > 0) {
    job.waits.median = MillisOf(tenant.waits.median);
    job.waits.longest = MillisOf(tenant.waits.longest);
  }
  job.memory = {tenant.demand.resident, tenant.demand.away, tenant.demand.pinned, tenant.demand.managed,
                tenant.demand.wants};
  if (const auto progress = sources.progress_of(tenant.tenant)) ShowProgress(*progress, job);
  return job;
}

api::ShareSettings ViewOf(const share::SchedulerSettings& settings) {
  api::ShareSettings view;
  view.policy = ToString(settings.policy);
  view.quantum_min = settings.quantum_min;
  view.quantum_max = settings.quantum_max;
  view.overhead = settings.overhead_target;
  view.idle = settings.idle;
  view.interactive_wait = settings.interactive_wait;
  view.pause = settings.pause;
  view.compute = ToString(settings.compute);
  view.memory = ToString(settings.memory);
  view.managed_turns = settings.managed_turns;
  view.compute_quantum = settings.compute_quantum;
  if (settings.capacity) view.capacity = SizeText(*settings.capacity);
  for (const auto& [gpu, size] : settings.capacity_of) view.gpu_capacity[gpu] = SizeText(size);
  view.on_no_yield = ToString(settings.on_no_yield);
  view.yield_limit = settings.yield_limit;
  view.step = settings.step;
  view.on_no_answer = ToString(settings.on_no_answer);
  view.answer_limit = settings.answer_limit;
  view.retry = settings.retry;
  view.unchanged = ToString(settings.unchanged);
  return view;
}

}  // namespace

api::ShareView ShareViewOf(const share::Snapshot& snapshot, const share::SchedulerSettings& settings,
                           const gpu::Inventory& inventory, const ShareViewSources& sources) {
  api::ShareView view;
  view.settings = ViewOf(settings);
  for (const auto& known : inventory.gpus) {
    for (const auto& status : snapshot.gpus) {
      if (status.gpu != known.uuid) continue;
      api::ShareGpu gpu;
      if (!known.mig) gpu.index = static_cast<int>(known.index);
      gpu.number = gpu::NumberOf(known);
      gpu.uuid = known.uuid;
      gpu.capacity = status.capacity;
      gpu.demand = status.demand;
      gpu.contended = status.contended;
      gpu.exclusive = status.exclusive;
      gpu.by_share = status.by_share;
      gpu.handing_over = status.handing_over;
      gpu.quantum = MillisOf(status.quantum);
      if (status.quantum_left) gpu.quantum_left = MillisOf(*status.quantum_left);
      gpu.moved_out = status.moved_out;
      gpu.moved_in = status.moved_in;
      gpu.copied_out = status.copied_out;
      gpu.copied_in = status.copied_in;
      gpu.hand_overs = status.hand_overs;
      gpu.moving = MillisOf(status.moving);
      gpu.moving_share = status.moving_share;
      for (const auto& tenant : status.tenants) gpu.jobs.push_back(ViewOf(tenant, sources));
      view.gpus.push_back(std::move(gpu));
    }
  }
  return view;
}

base::Result<share::SchedulerSettings> Changed(share::SchedulerSettings settings,
                                               const api::ShareUpdate& update) {
  if (update.policy) {
    GPUMAN_ASSIGN(settings.policy, share::ParsePolicy(*update.policy));
  }
  if (update.compute) {
    GPUMAN_ASSIGN(settings.compute, share::ParseConcurrency(*update.compute));
  }
  if (update.memory) {
    GPUMAN_ASSIGN(settings.memory, share::ParseMemory(*update.memory));
  }
  if (update.on_no_yield) {
    GPUMAN_ASSIGN(settings.on_no_yield, share::ParseOnNoYield(*update.on_no_yield));
  }
  if (update.on_no_answer) {
    GPUMAN_ASSIGN(settings.on_no_answer, share::ParseOnNoAnswer(*update.on_no_answer));
  }
  if (update.unchanged) {
    GPUMAN_ASSIGN(settings.unchanged, share::ParseUnchanged(*update.unchanged));
  }
  settings.answer_limit = update.answer_limit.value_or(settings.answer_limit);
  settings.quantum_min = update.quantum_min.value_or(settings.quantum_min);
  settings.quantum_max = update.quantum_max.value_or(settings.quantum_max);
  settings.overhead_target = update.overhead.value_or(settings.overhead_target);
  settings.idle = update.idle.value_or(settings.idle);
  settings.interactive_wait = update.interactive_wait.value_or(settings.interactive_wait);
  settings.pause = update.pause.value_or(settings.pause);
  settings.managed_turns = update.managed_turns.value_or(settings.managed_turns);
  settings.compute_quantum = update.compute_quantum.value_or(settings.compute_quantum);
  if (update.capacity || update.clear_capacity) settings.capacity = update.capacity;
  settings.yield_limit = update.yield_limit.value_or(settings.yield_limit);
  settings.step = update.step.value_or(settings.step);
  settings.retry = update.retry.value_or(settings.retry);
  GPUMAN_TRY(share::Validate(settings));
  return settings;
}

}  // namespace gpuman::daemon
