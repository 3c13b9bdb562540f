// The conditions under which a GPU is not healthy, as a table, and a check of which conditions hold now.
//
// Sources: DCGM's health checks, gpud, and NVIDIA's GPU memory error management (row remapping, page
// retirement). Pure; a RuleEvaluator belongs to one GPU and one thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "health/health_rule_input.h"
#include "health/rates.h"
#include "health/verdict.h"

namespace gpuman::health {

struct Rule {
  std::string_view code;  // "row_remap_failed"
  HealthState state = HealthState::kDegraded;
  RepairAction action = RepairAction::kNone;
  base::Millis raise_after{0};  // the condition must hold for this long without a break
  base::Millis clear_after{0};  // the fault ends when the condition has not held for this long
  std::string_view meaning;     // for the documentation
};

std::span<const Rule> Rules();
const Rule* RuleOf(std::string_view code);  // nullptr: there is none

// The number of PCIe replays in a minute that is normal for a link with this number of lanes (bit error rate
// 1e-12 at the speed of its generation). nullopt: an unknown generation.
std::optional<unsigned> ReplaysAllowed(unsigned generation, unsigned lanes);

// For each rule: a sentence with the figures if its condition holds, nullopt if the condition does not hold.
// A rule without an entry could not be checked; its fault does not change.
using RuleResults = std::map<std::string_view, std::optional<std::string>>;

// Which conditions hold after all readings so far.
class RuleEvaluator {
 public:
  RuleResults Check(base::MonoTime now, const HealthRuleInput& reading);

 private:
  void CheckBus(base::MonoTime now, const HealthRuleInput& reading, RuleResults& results);
  void CheckSlowdowns(base::MonoTime now, const HealthRuleInput& reading, RuleResults& results);
  void CheckLinks(base::MonoTime now, const HealthRuleInput& reading, RuleResults& results);

  GrowthMeter replays_{base::Millis(60'000)};
  GrowthMeter crc_errors_{base::Millis(5'000)};
  ConditionMinuteCounter slowdowns_{10};
};

}  // namespace gpuman::health
