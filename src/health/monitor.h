// The health of one GPU over time: its faults, when they began, and how they ended.
//
// The monitor is a state machine that takes readings and Xids. It reads no clock and calls no other part. A
// condition raises a fault when it has held for Rule::raise_after. The fault is over when the condition has
// not held for Rule::clear_after. A value that could not be read changes nothing. An Xid of a kind that
// breaks the GPU raises a fault at once. That fault ends with a reset of the GPU, with a reboot of the
// machine, or when the driver reports that no recovery is needed. An acknowledged fault stays in the list but
// does not affect the verdict, until it occurs again.
//
// Only one thread may use a monitor. The record (record.h) keeps the faults over restarts of the daemon and
// of the machine.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "health/health_rule_input.h"
#include "health/rules.h"
#include "health/verdict.h"

namespace gpuman::health {

struct MonitorSettings {
  base::Millis xid_repeat{60'000};    // an Xid that breaks nothing is reported again only after this pause
  base::Millis driver_quiet{30'000};  // once the driver asked for no recovery for so long, faults of Xids end
  std::set<unsigned> ignored_xids{};  // these are only reported; they raise no fault
};

struct Timestamp {
  base::MonoTime mono{};
  base::WallTime wall{};
};

struct HealthFault {
  std::string code;  // a rule's ("row_remap_failed"), or "xid_79"
  HealthState state = HealthState::kDegraded;
  RepairAction action = RepairAction::kNone;
  std::string text;  // a sentence with the figures
  base::WallTime since{};
  base::WallTime last{};  // for an Xid: when it last occurred
  std::uint64_t count = 1;
  bool acknowledged = false;
  friend bool operator==(const HealthFault&, const HealthFault&) = default;
};

struct XidOccurrence {
  unsigned number = 0;
  std::optional<pid_t> pid{};
  std::string text{};  // the driver's words, if the log has them
  base::WallTime at{};
};

enum class FaultChange { kRaised, kCleared, kAcknowledged, kReported };

struct HealthNotice {
  FaultChange change = FaultChange::kRaised;
  HealthFault fault;           // kReported: state healthy
  std::optional<pid_t> pid{};  // the process that had the Xid
  std::string why{};           // kCleared: what ended the fault
};
using Notices = std::vector<HealthNotice>;

struct HealthVerdict {
  HealthState state = HealthState::kHealthy;
  RepairAction action = RepairAction::kNone;
  friend bool operator==(const HealthVerdict&, const HealthVerdict&) = default;
};

class Monitor {
 public:
  explicit Monitor(MonitorSettings settings = {}) : settings_(std::move(settings)) {}

  Notices On(const HealthRuleInput& reading, Timestamp now);
  Notices On(const XidOccurrence& xid, Timestamp now);
  // The GPU was reset, or its driver was loaded again.
  Notices OnReset(Timestamp now);
  // Acknowledges the fault `code`, or all faults if `code` is empty. `by`: the name of the user, for the
  // notice. Returns no notice if there is no such fault.
  Notices Acknowledge(const std::string& code, const std::string& by, Timestamp now);

  HealthVerdict verdict() const;
  // The most severe first, then the oldest.
  std::vector<HealthFault> faults() const;

  // Takes over the faults of an earlier monitor. `rebooted`: the machine was rebooted since. A reboot ends
  // all faults of Xids, and all other faults that a reset or a reboot ends.
  Notices Restore(std::vector<HealthFault> faults, bool rebooted, Timestamp now);
  void SetSettings(MonitorSettings settings) { settings_ = std::move(settings); }

 private:
  struct Condition {
    std::optional<base::MonoTime> holds_since, over_since;
  };

  void Consider(const Rule& rule, const std::optional<std::string>& found, Timestamp now, Notices& notices);
  void HeedDriver(const HealthRuleInput& reading, Timestamp now, Notices& notices);
  template <typename Predicate>
  void ClearThose(Predicate over, const std::string& why, Notices& notices);

  MonitorSettings settings_;
  RuleEvaluator watch_;
  std::map<std::string, HealthFault> faults_;
  std::map<std::string_view, Condition> conditions_;
  std::map<unsigned, base::WallTime> reported_;  // when an Xid that breaks nothing last occurred
  std::optional<base::MonoTime> driver_quiet_since_;
  std::optional<std::uint64_t> double_bit_errors_;
  bool was_lost_ = false;
};

}  // namespace gpuman::health
