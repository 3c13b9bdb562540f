#include "daemon/config/guard_settings.h"

namespace gpuman::daemon {

guard::GuardSettings GuardSettingsOf(const Config& config) {
  guard::GuardSettings settings;
  settings.policy.grace = config.guard.grace;
  settings.policy.overhead = config.guard.overhead;
  settings.policy.lowered_patience = config.guard.lowered_patience;
  settings.policy.on_pressure =
      config.guard.suspend_on_pressure ? guard::OnPressure::kSuspend : guard::OnPressure::kEnd;
  settings.policy.suspend_patience = config.guard.suspend_patience;
  settings.policy.return_after = config.guard.return_after;
  settings.policy.unmanaged_victims = config.guard.unmanaged_victims;
  settings.policy.protected_names = guard::DefaultProtectedNames();
  settings.policy.protected_names.insert(config.guard.protected_names.begin(),
                                         config.guard.protected_names.end());
  for (const auto& limit : config.limits.unmanaged) {
    settings.policy.unmanaged.push_back(
        {limit.uid, limit.ceiling,
         limit.enforce ? guard::UnmanagedMode::kEnforce : guard::UnmanagedMode::kWarn});
  }
  settings.cadence.rest = config.sampling.rest;
  settings.cadence.fastest = config.sampling.fastest;
  settings.reserve = config.guard.reserve;
  settings.gpu_reserve = config.guard.gpu_reserve;
  return settings;
}

gpu::SamplerSettings SamplerSettingsOf(const Config& config) {
  gpu::SamplerSettings settings;
  settings.rest_period = config.sampling.rest;
  settings.slow_period = config.sampling.slow;
  settings.retry_period = config.sampling.retry;
  settings.call_limit = config.sampling.call_limit;
  return settings;
}

}  // namespace gpuman::daemon
