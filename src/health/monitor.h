// The health of one GPU over time: what is wrong with it, since when, and what became of it.
//
// A machine fed with readings and Xids; it reads no clock and calls nobody. A condition of the rules raises a
// fault when it has held for the rule's time, and the fault is over when it has not held for as long as the
// rule says; what could not be read changes nothing. An Xid of a kind that breaks the GPU raises one at once,
// which ends with a reset of the GPU, a reboot of the machine, or the driver's own word that no recovery is
// needed. A fault that somebody has acknowledged stays listed and counts for nothing, until it comes again.
//
// One thread. The record (record.h) brings it over restarts of the daemon and of the machine.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "health/reading.h"
#include "health/rules.h"
#include "health/verdict.h"

namespace gpuman::health {

struct MonitorSettings {
  base::Millis xid_repeat{60'000};  // the same Xid within this of the last one is counted, and not told again
  base::Millis driver_quiet{30'000};  // the driver has to ask for no recovery for so long to outrank an Xid
  std::set<unsigned> ignored_xids{};  // told of, whatever they are
};

struct Now {
  base::MonoTime mono{};
  base::WallTime wall{};
};

struct Fault {
  std::string code;  // a rule's ("row_remap_failed"), or "xid_79"
  State state = State::kDegraded;
  Action action = Action::kNone;
  std::string text;  // a sentence with the figures
  base::WallTime since{};
  base::WallTime last{};  // an Xid: when it came last
  std::uint64_t count = 1;
  bool acknowledged = false;
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct Xid {
  unsigned number = 0;
  std::optional<pid_t> pid{};
  std::string text{};  // the driver's words, where the log has them
  base::WallTime at{};
};

enum class Change { kRaised, kCleared, kAcknowledged, kTold };

struct Notice {
  Change change = Change::kRaised;
  Fault fault;                 // kTold: state healthy
  std::optional<pid_t> pid{};  // whose Xid it was
  std::string why{};           // kCleared: what ended it
};
using Notices = std::vector<Notice>;

struct Verdict {
  State state = State::kHealthy;
  Action action = Action::kNone;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

class Monitor {
 public:
  explicit Monitor(MonitorSettings settings = {}) : settings_(std::move(settings)) {}

  Notices On(const Reading& reading, Now now);
  Notices On(const Xid& xid, Now now);
  // The GPU was reset, or its driver loaded anew.
  Notices OnReset(Now now);
  // `code`, or all faults when empty. `by` is a name for the notice. Nothing of that name: no notice.
  Notices Acknowledge(const std::string& code, const std::string& by, Now now);

  Verdict verdict() const;
  // The worst first, then the oldest.
  std::vector<Fault> faults() const;

  // What an earlier monitor knew. `rebooted`: the machine was started anew since, which ends what a reset
  // ends.
  Notices Restore(std::vector<Fault> faults, bool rebooted, Now now);
  void SetSettings(MonitorSettings settings) { settings_ = std::move(settings); }

 private:
  struct Condition {
    std::optional<base::MonoTime> holds_since, over_since;
  };

  void Consider(const Rule& rule, const std::optional<std::string>& found, Now now, Notices& notices);
  void HeedDriver(const Reading& reading, Now now, Notices& notices);
  template <typename Predicate>
  void ClearThose(Predicate over, const std::string& why, Notices& notices);

  MonitorSettings settings_;
  Watch watch_;
  std::map<std::string, Fault> faults_;
  std::map<std::string_view, Condition> conditions_;
  std::map<unsigned, base::WallTime> told_;  // when an Xid that breaks nothing was told last
  std::optional<base::MonoTime> driver_quiet_since_;
  std::optional<std::uint64_t> double_bit_errors_;
  bool was_lost_ = false;
};

}  // namespace gpuman::health
