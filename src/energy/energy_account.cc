#include "energy/energy_account.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/parse_number.h"

namespace gpuman::energy {
namespace {

// Turns that are so short that no reading is ever kLag away from a hand-over are split after this time.
constexpr std::chrono::seconds kLongestMixed{2};
// A reading that is older tells nothing of now.
constexpr std::chrono::seconds kOldest{10};
// No GPU draws more.
constexpr double kMaxWatts = 2'000;
// So an estimate can be too high by this much, if the power ended right after the last reading, kOldest ago.
// A reading that is lower by more is of a counter that has begun anew.
constexpr Millijoules kReckonedTooHigh = 20'000'000;

}  // namespace

void EnergyAccount::Pass(base::MonoTime now) {
  if (!base_ || now <= passed_) {
    passed_ = std::max(passed_, now);
    return;
  }
  const auto known =
      std::find_if(past_.begin(), past_.end(), [&](const Past& past) { return past.state == state_; });
  (known == past_.end() ? past_.emplace_back(Past{state_, {}}) : *known).length += now - passed_;
  passed_ = now;
}

void EnergyAccount::SetHolders(Holders holders, bool vacant, base::MonoTime now) {
  State next{std::move(holders), vacant};
  if (next == state_) return;
  Pass(now);
  state_ = std::move(next);
  changed_ = now;
}

void EnergyAccount::BeginAnew(Millijoules counter, base::MonoTime at) {
  base_ = Base{counter, at};
  passed_ = at;
  past_.clear();
}

void EnergyAccount::Read(Millijoules counter, base::MonoTime at) {
  if (at <= last_at_ || counter == last_) return;
  last_at_ = at;
  last_ = counter;
  if (!base_) return BeginAnew(counter, at);
  if (counter + kReckonedTooHigh < base_->counter) {
    // A part of what is running was not seen.
    for (auto& [job, sum] : jobs_) sum.known = false;
    return BeginAnew(counter, at);
  }
  Pass(at);
  if (counter <= base_->counter || at <= base_->at) return;  // an estimate was too high
  const bool mixed = past_.size() > 1 && at - changed_ < kLag;
  if (mixed && at - base_->at < kLongestMixed) return;
  Settle(counter, at, true);
}

// The power at this moment: what the holders are known to draw, or else the mean since the base, or before
// it.
double EnergyAccount::PresentWatts() const {
  const auto& holders = state_.holders;
  const bool known = rest_.watts() && std::all_of(holders.begin(), holders.end(), [this](const auto& holder) {
                       return powers_.Knows(holder);
                     });
  if (known) {
    double weights = 0, drawn = 0;
    for (const EnergyHolder& holder : holders) {
      weights += holder.weight;
      drawn += holder.weight * powers_.Of(holder);
    }
    return *rest_.watts() + (weights > 0 ? drawn / weights : 0);
  }
  const std::chrono::duration<double> since = last_at_ - base_->at;
  if (since < kLag / 2 || *last_ <= base_->counter) return watts_;
  return static_cast<double>(*last_ - base_->counter) / 1000 / since.count();
}

void EnergyAccount::Reckon(base::MonoTime now) {
  SplitUnsplit();
  if (!base_ || !last_ || now <= base_->at || now - last_at_ > kOldest) return;
  Pass(now);
  const Millijoules since = EnergyOf(std::min(PresentWatts(), kMaxWatts), now - last_at_);
  Settle(std::max(*last_ + since, base_->counter), now, false);
}

void EnergyAccount::Settle(Millijoules counter, base::MonoTime at, bool measured) {
  const Millijoules used = counter - base_->counter;
  std::vector<Stretch> stretches;
  stretches.reserve(past_.size());
  for (const Past& past : past_) stretches.push_back({past.length, past.state.holders});
  const EnergySplit parts = SplitOf(used, stretches);
  if (measured && IsUnsure(stretches))
    SetAside(used, stretches, at);
  else
    Add(used, parts);
  if (measured) Learn(used, parts, stretches, at);
  if (unsplit_ && (!IsUnsure(unsplit_->stretches) || at - unsplit_->since > kLongestUnsure)) SplitUnsplit();
  BeginAnew(counter, at);
}

EnergySplit EnergyAccount::SplitOf(Millijoules used, const std::vector<Stretch>& stretches) const {
  return Split(used, stretches, rest_.watts().value_or(0),
               [this](const EnergyHolder& holder) { return powers_.Of(holder); });
}

void EnergyAccount::Add(Millijoules used, const EnergySplit& parts) {
  counted_ += used;
  idle_ += parts.idle;
  for (const auto& [job, part] : parts.of) {
    if (job == kOthers)
      others_ += part;
    else
      jobs_[job].used += part;
  }
}

// A single job has used all of it, whatever it draws.
bool EnergyAccount::IsUnsure(const std::vector<Stretch>& stretches) const {
  std::set<base::JobId> jobs;
  bool all_known = true;
  for (const Stretch& stretch : stretches)
    for (const EnergyHolder& holder : stretch.holders) {
      jobs.insert(holder.job);
      all_known = all_known && powers_.HasSeenAlone(holder);
    }
  return jobs.size() > 1 && !all_known;
}

void EnergyAccount::SetAside(Millijoules used, const std::vector<Stretch>& stretches, base::MonoTime at) {
  if (!unsplit_) unsplit_ = Unsplit{0, {}, at};
  unsplit_->used += used;
  for (const Stretch& stretch : stretches) {
    const auto known = std::ranges::find(unsplit_->stretches, stretch.holders, &Stretch::holders);
    if (known == unsplit_->stretches.end())
      unsplit_->stretches.push_back(stretch);
    else
      known->length += stretch.length;
  }
}

// Where the powers of some are known and of others not, what all of them used tells those of the others.
void EnergyAccount::SplitUnsplit() {
  if (!unsplit_) return;
  const Unsplit whole = std::move(*std::exchange(unsplit_, std::nullopt));
  const bool any_known = std::ranges::any_of(whole.stretches, [this](const Stretch& stretch) {
    return std::ranges::any_of(stretch.holders, [this](const EnergyHolder& holder) {
      return !holder.moves && powers_.HasSeenAlone(holder);
    });
  });
  if (IsUnsure(whole.stretches) && any_known && rest_.watts())
    powers_.Adjust(whole.stretches, whole.used - SplitOf(whole.used, whole.stretches).idle);
  Add(whole.used, SplitOf(whole.used, whole.stretches));
}

// A time in which nothing changed, and not soon before it either, tells most.
void EnergyAccount::Learn(Millijoules used, const EnergySplit& parts, const std::vector<Stretch>& stretches,
                          base::MonoTime at) {
  const Time time = at - base_->at;
  watts_ = static_cast<double>(used) / 1000 / std::chrono::duration<double>(time).count();
  if (past_.size() > 1 && rest_.watts()) powers_.Adjust(stretches, used - parts.idle);
  if (past_.size() != 1 || base_->at - changed_ < kLag) return;
  const State& state = past_.front().state;
  if (state.vacant) rest_.Learn(used, time, base_->at - changed_);
  if (state.holders.size() == 1) powers_.Learn(state.holders.front(), used - parts.idle, time);
}

void EnergyAccount::Begin(base::JobId job, bool seen) {
  Forget(job);
  jobs_[job].known = seen;
}

void EnergyAccount::Forget(base::JobId job) {
  SplitUnsplit();
  powers_.Forget(job);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  ended_ += found->second.used;
  jobs_.erase(found);
}

std::optional<Millijoules> EnergyAccount::Of(base::JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.known) return std::nullopt;
  return found->second.used;
}

std::optional<GpuEnergyRecord> EnergyAccount::ToRecord(const std::string& boot) const {
  if (!base_) return std::nullopt;
  if (unsplit_) {
    EnergyAccount now = *this;
    now.SplitUnsplit();
    return now.ToRecord(boot);
  }
  GpuEnergyRecord record;
  record.boot = boot;
  record.counter = base_->counter;
  record.at_ns = std::chrono::nanoseconds(base_->at.time_since_epoch()).count();
  record.holders = state_.holders;
  record.rest_watts = rest_.watts();
  record.counted = counted_;
  record.idle = idle_;
  record.others = others_;
  record.ended = ended_;
  for (const auto& [job, sum] : jobs_) {
    if (sum.known)
      record.jobs[std::to_string(job.value)] = sum.used;
    else
      record.ended += sum.used;
  }
  return record;
}

void EnergyAccount::Restore(const GpuEnergyRecord& record, const std::string& boot,
                            const std::set<base::JobId>& runs) {
  rest_ = RestPower(record.rest_watts);
  unsplit_.reset();
  counted_ = record.counted;
  idle_ = record.idle;
  others_ = record.others;
  ended_ = record.ended;
  const bool same_boot = !boot.empty() && record.boot == boot;
  for (const auto& [name, used] : record.jobs) {
    const base::JobId job{base::ParseNumber<std::int64_t>(name).value_or(0)};
    if (same_boot && runs.contains(job))
      jobs_[job] = {used, true};
    else
      ended_ += used;
  }
  if (!same_boot) return;
  BeginAnew(record.counter, base::MonoTime(std::chrono::nanoseconds(record.at_ns)));
  changed_ = base_->at;
  const bool all_go_on = std::all_of(
      record.holders.begin(), record.holders.end(),
      [&](const EnergyHolder& holder) { return holder.job == kOthers || runs.contains(holder.job); });
  state_.holders = all_go_on ? record.holders : Holders{{kOthers}};
}

}  // namespace gpuman::energy
