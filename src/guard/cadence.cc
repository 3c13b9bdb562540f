#include "guard/cadence.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

using Seconds = std::chrono::duration<double>;

// Growth counts as of the last period, even if the last reported sample is older: samples without a change
// are not reported.
void Observe(const WatchedUsage& watched, bool known, base::Millis period, base::MonoTime now,
             const CadenceSettings& settings, UsageGrowthState& state) {
  if (watched.used > state.used) {
    const base::Bytes step = watched.used - state.used;
    const Seconds since = known ? now - state.seen_at : base::MonoTime::duration(settings.rest);
    const double seconds = std::clamp(since.count(), Seconds(settings.fastest).count(),
                                      std::max(Seconds(settings.fastest), Seconds(period)).count());
    state.rate = std::max(state.rate, static_cast<double>(step.count) / seconds);
    state.step = std::max(state.step, step);
    state.grew_at = now;
    state.growing = true;
  } else if (state.growing && now - state.grew_at >= settings.hold) {
    state.growing = false;
    state.rate = 0;
    state.step = {};
  }
  state.used = watched.used;
  state.seen_at = now;
}

base::Millis PeriodFor(const WatchedUsage& watched, const UsageGrowthState& state,
                       const CadenceSettings& settings) {
  if (!state.growing) return settings.rest;
  const base::Bytes room = watched.ceiling - watched.used;
  if (room <= state.step + state.step) return settings.fastest;
  const double seconds = static_cast<double>(room.count) / state.rate;
  const double scaled = seconds / Seconds(settings.horizon).count() * Seconds(settings.fastest).count();
  const double longest = Seconds(settings.rest).count();
  return std::max(settings.fastest,
                  std::chrono::duration_cast<base::Millis>(Seconds(std::min(scaled, longest))));
}

std::optional<base::Bytes> CeilingOf(const JobSnapshot& job, const std::string& gpu) {
  const auto limit = job.limits.find(gpu);
  if (limit == job.limits.end()) return std::nullopt;
  return limit->second.hard ? limit->second.hard : limit->second.soft;
}

}  // namespace

std::vector<WatchedUsage> WatchedOn(const GpuSnapshot& gpu, const std::vector<JobSnapshot>& jobs,
                                    const PolicySettings& settings) {
  std::vector<WatchedUsage> watched;
  auto usages = UsageByJob(gpu.processes);
  for (const auto& job : jobs)
    if (const auto ceiling = CeilingOf(job, gpu.uuid))
      watched.push_back({fmt::format("job {}", job.id.value), usages[job.id].known, *ceiling});
  if (gpu.reserve.count > 0) watched.push_back({"reserve", gpu.used, gpu.used + (gpu.free - gpu.reserve)});
  if (settings.unmanaged.empty()) return watched;
  std::map<uid_t, base::Bytes> users;
  for (const auto& process : gpu.processes)
    if (IsUnmanaged(process, settings)) users[*process.uid] += process.memory.value_or(base::Bytes{});
  for (const auto& [uid, used] : users)
    if (const auto* rule = RuleFor(uid, settings))
      watched.push_back({fmt::format("user {}", uid), used, rule->ceiling.Of(gpu.total)});
  return watched;
}

base::Millis NextPeriod(const std::string& gpu, const std::vector<WatchedUsage>& watched,
                        bool something_is_ending, base::MonoTime now, const CadenceSettings& settings,
                        CadenceState& state) {
  auto& known = state.gpus[gpu];
  if (known.period.count() <= 0) known.period = settings.rest;
  base::Millis period = something_is_ending ? std::min(settings.ending, settings.rest) : settings.rest;
  for (const auto& one : watched) {
    const auto [it, fresh] = known.watched.try_emplace(one.key);
    Observe(one, !fresh, known.period, now, settings, it->second);
    period = std::min(period, PeriodFor(one, it->second, settings));
  }
  std::erase_if(known.watched, [&](const auto& entry) {
    return std::none_of(watched.begin(), watched.end(),
                        [&](const WatchedUsage& one) { return one.key == entry.first; });
  });
  known.period = period;
  return period;
}

}  // namespace gpuman::guard
