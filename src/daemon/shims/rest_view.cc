#include "daemon/shims/rest_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryStage;
using ledger::wire::StepEnd;
using ledger::wire::StepGrant;

constexpr unsigned kMaxNamed = 4;

bool HasContext(const ledger::SlotStatus& one) {
  return one.stage != MemoryStage::kNone && one.stage != MemoryStage::kFailed;
}

bool IsHeld(const ledger::SlotStatus& one) { return one.stage == MemoryStage::kHeld && one.answered; }

bool Has(std::uint16_t bits, unsigned gpu) { return (bits >> gpu & 1) != 0; }

share::StepEnded::Why WhyOf(StepEnd end) {
  using Why = share::StepEnded::Why;
  switch (end) {
    case StepEnd::kUsedUp:
      return Why::kUsedUp;
    case StepEnd::kAtWork:
      return Why::kWorked;
    case StepEnd::kNobodyWaited:
      return Why::kNobodyWaited;
    case StepEnd::kOthersChanged:
      return Why::kOthersRested;
    case StepEnd::kWithdrawn:
      return Why::kWithdrawn;
    case StepEnd::kNotYet:
    case StepEnd::kRefused:
      break;
  }
  return Why::kRefused;
}

// The units of a process whose shim tells how it comes to rest. At an open gate a call may come at any time.
// A call that has not returned may be for any GPU; where one of the process's GPUs works, the call is taken to
// wait for that one, so that threads at the gate can be stepped for the others. `granted`: the unit with the
// process's open grant.
void AddUnits(const ledger::SlotStatus& one, const std::optional<share::UnitId>& granted,
              std::vector<share::UnitView>& units) {
  const bool held = IsHeld(one);
  const bool calls = !held && (!one.rest.shut || (one.rest.in_flight && one.rest.works == 0));
  const bool steppable = one.rest.shut && one.evicted.count == 0;
  const auto add = [&](unsigned gpu, bool works, bool waits) {
    units.push_back({{one.process, gpu}, works || calls, waits || one.rest.anywhere, steppable});
  };
  bool any = false;
  for (unsigned gpu = 0; gpu < ledger::wire::kMaxGpus; ++gpu) {
    const bool works = Has(one.rest.works, gpu), waits = Has(one.rest.waits, gpu);
    if (!works && !waits && !(granted && granted->gpu == gpu)) continue;
    add(gpu, works, waits);
    any = true;
  }
  if (!any && (!held || granted)) add(StepGrant::kAnyGpu, false, false);
}

void AddEnds(const std::vector<ledger::SlotStatus>& slots, OpenGrants& grants, share::CutView& view) {
  for (const auto& one : slots) {
    const auto open = grants.find(one.process);
    if (open == grants.end() || one.stepped.number != open->second.number ||
        one.stepped.ended == StepEnd::kNotYet)
      continue;
    view.ended.push_back({open->second.unit, WhyOf(one.stepped.ended), one.stepped.calls});
    grants.erase(open);
  }
  // A process that has ended has no grant any more.
  std::erase_if(grants, [&](const auto& grant) {
    return std::none_of(slots.begin(), slots.end(),
                        [&](const ledger::SlotStatus& one) { return one.process == grant.first; });
  });
}

std::string WorkOf(const ledger::SlotStatus& one, const std::function<std::string(unsigned)>& name_of) {
  std::vector<std::string> gpus;
  for (unsigned gpu = 0; gpu < ledger::wire::kMaxGpus; ++gpu)
    if (Has(one.rest.works, gpu)) gpus.push_back(name_of(gpu));
  if (!gpus.empty()) return fmt::format("works on {}", fmt::join(gpus, " and "));
  if (one.rest.capturing) return "records a CUDA graph";
  if (one.rest.for_room) return "waits for room";
  if (one.rest.in_flight) return "is in a call";
  return "has calls or GPU work that did not come to an end";
}

}  // namespace

share::CutView CutViewOf(const std::vector<ledger::SlotStatus>& slots, OpenGrants& grants) {
  share::CutView view;
  view.all_shut = true;
  AddEnds(slots, grants, view);
  for (const auto& one : slots) {
    if (!HasContext(one)) continue;
    view.all_shut = view.all_shut && (IsHeld(one) || one.rest.shut);
    const auto grant = grants.find(one.process);
    if (one.steps)
      AddUnits(one, grant == grants.end() ? std::nullopt : std::optional(grant->second.unit), view.units);
    else if (!IsHeld(one))
      view.units.push_back({{one.process, StepGrant::kAnyGpu}, true, false, false});
  }
  return view;
}

std::string WhyNotAtRest(const std::vector<ledger::SlotStatus>& slots,
                         const std::function<std::string(unsigned)>& name_of) {
  std::vector<std::string> named;
  unsigned more = 0;
  for (const auto& one : slots) {
    if (!HasContext(one) || IsHeld(one)) continue;
    if (named.size() == kMaxNamed)
      ++more;
    else
      named.push_back(fmt::format("process {} {}", one.process.pid, WorkOf(one, name_of)));
  }
  std::string text = fmt::format("{}", fmt::join(named, "; "));
  if (more != 0) text += fmt::format("; and {} more", more);
  return text;
}

}  // namespace gpuman::daemon
