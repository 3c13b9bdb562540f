#include "daemon/shims/quiesce_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <optional>

#include "daemon/shims/slot_state.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::CallGrant;
using ledger::wire::CallGrantEndReason;
using ledger::wire::MemoryResidency;

constexpr unsigned kMaxNamed = 4;

bool Has(std::uint16_t bits, unsigned gpu) { return (bits >> gpu & 1) != 0; }

unsigned CountOf(std::uint16_t bits) { return static_cast<unsigned>(std::bitset<16>(bits).count()); }

// The units of a process whose shim tells how it comes to rest. At an open gate a call may come at any time.
// A call that has not returned is taken to wait for the GPUs that work, so that threads at the gate can be
// granted calls for the others; where none works it counts for all. `granted`: the GPU of the process's open
// grant.
void AddUnits(const ledger::SlotStatus& one, std::uint16_t used, std::optional<unsigned> granted,
              std::vector<share::ProcessGpuState>& units) {
  const bool open = !IsHeld(one) && !one.rest.shut;
  const bool calls = !IsHeld(one) && one.rest.in_flight && one.rest.works == 0;
  const bool takes_grants = one.rest.shut && one.evicted.count == 0;
  const auto add = [&](unsigned gpu, bool works, bool waits) {
    units.push_back({{one.process, gpu},
                     works || calls || open,
                     waits || one.rest.anywhere,
                     takes_grants,
                     one.rest.for_room,
                     one.completed});
  };
  for (unsigned gpu = 0; gpu < ledger::wire::kMaxGpus; ++gpu)
    if (Has(used, gpu)) add(gpu, Has(one.rest.works, gpu), Has(one.rest.waits, gpu));
  if (used == 0 || granted == CallGrant::kAnyGpu)
    add(CallGrant::kAnyGpu, one.rest.works != 0, /*waits=*/false);
}

// What the slots say of grants and GPUs goes into `state`; a process that has ended leaves it.
void Note(const std::vector<ledger::SlotStatus>& slots, QuiesceAttemptState& state,
          share::QuiesceView& view) {
  for (const auto& one : slots) {
    auto& used = state.used[one.process];
    used = static_cast<std::uint16_t>(used | one.rest.works | one.rest.waits);
    const auto open = state.grants.find(one.process);
    if (open == state.grants.end() || one.grant_report.number != open->second.number ||
        one.grant_report.ended == CallGrantEndReason::kNotYet)
      continue;
    view.ended.push_back({open->second.unit, one.grant_report.calls});
    state.grants.erase(open);
  }
  const auto has_ended = [&](const auto& each) {
    return std::none_of(slots.begin(), slots.end(),
                        [&](const ledger::SlotStatus& one) { return one.process == each.first; });
  };
  std::erase_if(state.grants, has_ended);
  std::erase_if(state.used, has_ended);
}

std::string WorkOf(const ledger::SlotStatus& one, const std::function<std::string(unsigned)>& name_of) {
  std::vector<std::string> gpus;
  for (unsigned gpu = 0; gpu < ledger::wire::kMaxGpus; ++gpu)
    if (Has(one.rest.works, gpu)) gpus.push_back(name_of(gpu));
  if (!gpus.empty())
    return fmt::format("works on {}{}", fmt::join(gpus, " and "),
                       one.rest.for_room ? ", and a thread waits for room" : "");
  if (one.rest.capturing) return "records a CUDA graph";
  if (one.rest.for_room) return "waits for room";
  if (one.rest.in_flight) return "is in a call";
  if (!one.answered && one.residency != MemoryResidency::kEvicting && one.residency != MemoryResidency::kHeld)
    return "has not taken up the order";
  return "has calls or GPU work that did not come to an end";
}

// Others may wait for a call that it does not make: its host computes, or waits for something else.
bool MakesNoCall(const ledger::SlotStatus& one) {
  return IsHeld(one) && one.takes_grants && !one.rest.for_room && one.rest.waits == 0 && !one.rest.anywhere;
}

}  // namespace

share::QuiesceView QuiesceViewOf(const std::vector<ledger::SlotStatus>& slots, QuiesceAttemptState& state) {
  share::QuiesceView view;
  view.all_shut = true;
  Note(slots, state, view);
  for (const auto& one : slots) {
    if (!HasContext(one)) continue;
    view.all_shut = view.all_shut && (IsHeld(one) || one.rest.shut);
    const auto grant = state.grants.find(one.process);
    std::optional<unsigned> granted;
    if (grant != state.grants.end()) granted = grant->second.unit.gpu;
    if (one.takes_grants)
      AddUnits(one, state.used.at(one.process), granted, view.units);
    else
      view.units.push_back({{one.process, CallGrant::kAnyGpu}, !IsHeld(one), false, false, false});
  }
  return view;
}

QuiesceCount CountAtRest(const std::vector<ledger::SlotStatus>& slots) {
  QuiesceCount count;
  for (const auto& one : slots) {
    if (!HasContext(one)) continue;
    const unsigned working = one.takes_grants && !IsHeld(one) ? CountOf(one.rest.works) : 0;
    const unsigned in_use = one.takes_grants ? CountOf(one.rest.works | one.rest.waits) : 0;
    const unsigned units = std::max({1u, in_use, static_cast<unsigned>(one.held.size())});
    const bool shut = IsHeld(one) || (one.takes_grants && one.rest.shut && !one.rest.in_flight);
    count.units += units;
    if (shut) count.at_rest += units - working;
  }
  return count;
}

std::string WhyNotAtRest(const std::vector<ledger::SlotStatus>& slots,
                         const std::function<std::string(unsigned)>& name_of) {
  std::vector<std::string> reasons;
  for (const auto& one : slots)
    if (HasContext(one) && (!IsHeld(one) || one.rest.for_room))
      reasons.push_back(fmt::format("process {} {}", one.process.pid, WorkOf(one, name_of)));
  for (const auto& one : slots)
    if (HasContext(one) && MakesNoCall(one))
      reasons.push_back(fmt::format("process {} makes no call", one.process.pid));
  const auto more = reasons.size() > kMaxNamed ? reasons.size() - kMaxNamed : 0;
  reasons.resize(reasons.size() - more);
  std::string text = fmt::format("{}", fmt::join(reasons, "; "));
  if (more != 0) text += fmt::format("; and {} more", more);
  return text;
}

// The work that a process has on its only GPU comes to its end by itself.
bool KeepsWorkForRoom(const std::vector<ledger::SlotStatus>& slots) {
  return std::any_of(slots.begin(), slots.end(), [&](const ledger::SlotStatus& waits) {
    const bool for_room = waits.rest.for_room || waits.activity == ledger::wire::Activity::kForRoom;
    return for_room && std::any_of(slots.begin(), slots.end(), [&](const ledger::SlotStatus& works) {
             if (!HasContext(works) || IsHeld(works)) return false;
             return &works != &waits || (works.rest.works != 0 && works.held.size() > 1);
           });
  });
}

}  // namespace gpuman::daemon
