#include "share/concurrency_tuner.h"

namespace gpuman::share {

void ConcurrencyTuner::Update(const std::set<TenantId>& working, const SchedulerSettings& settings,
                              base::MonoTime now) {
  if (settings.compute != ConcurrencyMode::kAuto) {
    phase_ = TrialPhase::kNone;
    exclusive_ = settings.compute == ConcurrencyMode::kExclusive;
    return;
  }
  alone_ = working.size() < 2;
  if (alone_) {
    // If a tenant is alone for a while, the result of the trials stays.
    if (phase_ != TrialPhase::kKept) Enter(TrialPhase::kNone, {});
    return;
  }
  const bool others = working != working_;
  if (phase_ == TrialPhase::kNone || others || (phase_ == TrialPhase::kKept && now >= until_)) {
    working_ = working;
    return Enter(TrialPhase::kConcurrent, now + settings.compute_trial);
  }
  if (now < until_) return;
  if (phase_ == TrialPhase::kConcurrent) {
    side_by_side_ = counts_;
    return Enter(TrialPhase::kExclusive, now + settings.compute_trial);
  }
  Compare();
  Enter(TrialPhase::kKept, now + settings.compute_again);
}

void ConcurrencyTuner::Add(TenantId tenant, std::uint64_t completed) { counts_[tenant] += completed; }

std::optional<base::MonoTime> ConcurrencyTuner::Deadline() const {
  if (phase_ == TrialPhase::kNone || alone_) return std::nullopt;
  return until_;
}

void ConcurrencyTuner::Enter(TrialPhase phase, base::MonoTime until) {
  if (phase != TrialPhase::kKept) exclusive_ = phase == TrialPhase::kExclusive;
  phase_ = phase;
  until_ = until;
  counts_.clear();
}

void ConcurrencyTuner::Compare() {
  double sum = 0;
  int compared = 0;
  for (const TenantId tenant : working_) {
    const auto before = side_by_side_.find(tenant);
    if (before == side_by_side_.end() || before->second == 0) continue;
    sum += static_cast<double>(counts_[tenant]) / static_cast<double>(before->second);
    ++compared;
  }
  exclusive_ = compared > 0 && sum / compared > 1;
}

}  // namespace gpuman::share
