#include "health/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "health/xid.h"

namespace gpuman::health {
namespace {

constexpr std::string_view kXid = "xid_";
constexpr std::string_view kRecovery = "recovery_";

bool IsXid(const HealthFault& fault) { return fault.code.starts_with(kXid); }

// A driver that reports the recovery it needs would ask for these actions itself.
bool IsForDriverToSay(const HealthFault& fault) {
  return IsXid(fault) &&
         (fault.action == RepairAction::kReset || fault.action == RepairAction::kDrainAndReset ||
          fault.action == RepairAction::kReboot);
}

std::string TextOf(const XidCatalogEntry& kind, const XidOccurrence& xid) {
  auto text = fmt::format("Xid {}: {}", kind.xid, kind.name);
  if (xid.pid) text += fmt::format(", by process {}", *xid.pid);
  return text;
}

}  // namespace

template <typename Predicate>
void Monitor::ClearThose(Predicate over, const std::string& why, Notices& notices) {
  for (auto it = faults_.begin(); it != faults_.end();) {
    if (!over(it->second)) {
      ++it;
      continue;
    }
    conditions_.erase(RuleOf(it->first) ? RuleOf(it->first)->code : std::string_view());
    notices.push_back({FaultChange::kCleared, std::move(it->second), {}, why});
    it = faults_.erase(it);
  }
}

Notices Monitor::On(const HealthRuleInput& reading, Timestamp now) {
  Notices notices;
  const bool is_lost = reading.missing || !reading.lost.empty();
  const bool is_known = !is_lost && reading.silent.empty();
  const bool counts_anew = double_bit_errors_ && reading.double_bit_errors < double_bit_errors_ &&
                           reading.double_bit_errors.has_value();
  if (is_known && (std::exchange(was_lost_, false) || counts_anew)) notices = OnReset(now);
  was_lost_ = was_lost_ || is_lost;
  if (reading.double_bit_errors) double_bit_errors_ = reading.double_bit_errors;
  HeedDriver(reading, now, notices);
  for (const auto& [code, found] : watch_.Check(now.mono, reading))
    Consider(*RuleOf(code), found, now, notices);
  return notices;
}

void Monitor::Consider(const Rule& rule, const std::optional<std::string>& found, Timestamp now,
                       Notices& notices) {
  Condition& condition = conditions_[rule.code];
  const auto known = faults_.find(std::string(rule.code));
  if (found) {
    condition.over_since.reset();
    if (!condition.holds_since) condition.holds_since = now.mono;
    if (known != faults_.end()) {
      known->second.text = *found;
      known->second.last = now.wall;
      return;
    }
    if (now.mono < *condition.holds_since + rule.raise_after) return;
    const HealthFault fault{
        std::string(rule.code), rule.state, rule.action, *found, now.wall, now.wall, 1, false};
    faults_.emplace(fault.code, fault);
    notices.push_back({FaultChange::kRaised, fault, {}, {}});
    return;
  }
  condition.holds_since.reset();
  if (known == faults_.end()) return;
  if (!condition.over_since) condition.over_since = now.mono;
  if (now.mono < *condition.over_since + rule.clear_after) return;
  condition.over_since.reset();
  notices.push_back({FaultChange::kCleared, std::move(known->second), {}, "it is the case no more"});
  faults_.erase(known);
}

// If the driver reports the recovery it needs, its report counts more than the table of Xids.
void Monitor::HeedDriver(const HealthRuleInput& reading, Timestamp now, Notices& notices) {
  const bool is_known = !reading.missing && reading.lost.empty() && reading.silent.empty();
  if (reading.recovery != Recovery::kNone || !is_known) return driver_quiet_since_.reset();
  if (!driver_quiet_since_) driver_quiet_since_ = now.mono;
  if (now.mono < *driver_quiet_since_ + settings_.driver_quiet) return;
  ClearThose(IsForDriverToSay, "the driver asks for no recovery of the GPU", notices);
}

Notices Monitor::On(const XidOccurrence& xid, Timestamp now) {
  XidCatalogEntry kind = ClassOf(xid.number);
  if (settings_.ignored_xids.contains(xid.number))
    kind = {kind.xid, kind.name, HealthState::kHealthy, RepairAction::kNone};
  HealthFault fault{fmt::format("{}{}", kXid, xid.number),
                    kind.state,
                    kind.action,
                    TextOf(kind, xid),
                    xid.at,
                    xid.at,
                    1,
                    false};
  if (kind.state == HealthState::kHealthy) {
    const auto [told, first] = reported_.try_emplace(xid.number, xid.at);
    if (!first && xid.at < std::exchange(told->second, xid.at) + settings_.xid_repeat) return {};
    return {{FaultChange::kReported, std::move(fault), xid.pid, {}}};
  }
  driver_quiet_since_ = driver_quiet_since_ ? std::optional(now.mono) : std::nullopt;
  const auto [known, fresh] = faults_.try_emplace(fault.code, fault);
  if (fresh) return {{FaultChange::kRaised, std::move(fault), xid.pid, {}}};
  ++known->second.count;
  known->second.text = fault.text;
  known->second.last = xid.at;
  if (!std::exchange(known->second.acknowledged, false)) return {};
  return {{FaultChange::kRaised, known->second, xid.pid, {}}};
}

Notices Monitor::OnReset(Timestamp) {
  Notices notices;
  double_bit_errors_.reset();
  watch_ = {};
  ClearThose(
      [](const HealthFault& fault) {
        return IsXid(fault) && (IsEndedByReset(fault.action) || fault.action == RepairAction::kPowerCycle);
      },
      "the GPU was reset", notices);
  return notices;
}

Notices Monitor::Acknowledge(const std::string& code, const std::string& by, Timestamp) {
  Notices notices;
  for (auto& [known, fault] : faults_) {
    if ((!code.empty() && known != code) || std::exchange(fault.acknowledged, true)) continue;
    notices.push_back({FaultChange::kAcknowledged, fault, {}, "by " + by});
  }
  return notices;
}

HealthVerdict Monitor::verdict() const {
  HealthVerdict verdict;
  bool driver_says = false;
  for (const auto& [code, fault] : faults_) {
    if (fault.acknowledged) continue;
    verdict.state = std::max(verdict.state, fault.state);
    if (driver_says) continue;
    driver_says = code.starts_with(kRecovery);
    verdict.action = driver_says ? fault.action : std::max(verdict.action, fault.action);
  }
  return verdict;
}

std::vector<HealthFault> Monitor::faults() const {
  std::vector<HealthFault> faults;
  for (const auto& [code, fault] : faults_) faults.push_back(fault);
  std::stable_sort(faults.begin(), faults.end(), [](const HealthFault& a, const HealthFault& b) {
    return std::pair(b.state, a.since) < std::pair(a.state, b.since);
  });
  return faults;
}

Notices Monitor::Restore(std::vector<HealthFault> faults, bool rebooted, Timestamp) {
  for (auto& fault : faults) {
    // Drops a fault whose rule exists only in an earlier version.
    if (!IsXid(fault) && RuleOf(fault.code) == nullptr) continue;
    faults_.insert_or_assign(fault.code, std::move(fault));
  }
  Notices notices;
  if (rebooted)
    ClearThose(
        [](const HealthFault& fault) {
          return IsXid(fault) || IsEndedByReset(fault.action) || fault.action == RepairAction::kReboot;
        },
        "the machine was rebooted", notices);
  return notices;
}

}  // namespace gpuman::health
