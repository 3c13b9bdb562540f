#include "daemon/mig/orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/parse_number.h"
#include "mig/reader.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;

std::optional<unsigned> ParseHex(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  return base::ParseNumber<unsigned>(text, 16);
}

base::Result<bool> IsFor(MigLook& look, const MigOrder& order) {
  if (order.filters.empty()) return true;
  GPUMAN_ASSIGN(const unsigned pci_id, look.PciIdOf(order.gpu.uuid));
  for (const auto& filter : order.filters) {
    const auto id = ParseHex(filter);
    if (!id)
      return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no PCI device id", filter),
                        "such as 0x233510DE, of an H200");
    if (*id == pci_id) return true;
  }
  return false;
}

base::Result<std::vector<MigOutcome>> Plan(MigLook& look, const std::vector<MigOrder>& orders) {
  std::vector<MigOutcome> outcomes;
  std::set<std::string> seen;
  for (const auto& order : orders) {
    GPUMAN_ASSIGN(const bool is_for_it, IsFor(look, order));
    if (!is_for_it) continue;
    if (!seen.insert(order.gpu.uuid).second)
      return base::Fail(ErrorCode::kInvalidArgument,
                        fmt::format("two entries are for GPU {}", order.gpu.index));
    MigOutcome outcome{order.gpu, order.wanted, {}, {}, false, "", {}};
    if (const auto& device = look.StateOf(order.gpu.uuid)) {
      outcome.before = *device;
      if (outcome.wanted.keep_mode) outcome.wanted.enabled = outcome.before.enabled;
      auto plan = mig::MakePlan(outcome.before, order.wanted);
      if (plan)
        outcome.plan = std::move(*plan);
      else
        outcome.error = std::move(plan.error());
    } else {
      outcome.error = device.error();
    }
    outcomes.push_back(std::move(outcome));
  }
  if (outcomes.empty())
    return base::Fail(ErrorCode::kNotFound, "no GPU of this machine is what an entry is for");
  std::sort(outcomes.begin(), outcomes.end(),
            [](const auto& a, const auto& b) { return a.gpu.index < b.gpu.index; });
  return outcomes;
}

bool IsHeldUp(const MigOutcome& outcome) {
  return !outcome.plan.steps.empty() && !outcome.plan.in_the_way.empty();
}

std::optional<base::Error> WhyHeldUp(const MigOutcome& outcome, const MigObstacles& obstacles) {
  const auto held = HeldBy(outcome, obstacles.holders);
  std::optional<base::Error> error;
  if (IsHeldUp(outcome)) error = mig::InTheWay(outcome.plan, obstacles.own);
  if (held.empty()) return error;
  const auto who = fmt::format("{}", fmt::join(held, ", "));
  if (error) error->message += "; " + who;
  return error ? error
               : base::Error{ErrorCode::kConflict, "in the way: " + who,
                             "end it, or wait: gpuman gpu drain keeps new jobs away"};
}

void Perform(const driver::Nvml& nvml, const std::set<pid_t>& own, MigOutcome& outcome) {
  auto applied = mig::Apply(nvml, outcome.gpu.uuid, outcome.wanted, own);
  if (!applied) {
    outcome.error = std::move(applied.error());
    return;
  }
  outcome.done = true;
  outcome.needs_reset = std::move(applied->needs_reset);
}

}  // namespace

const MigLook::State& MigLook::StateOf(const std::string& uuid) {
  const auto it = states_.find(uuid);
  if (it != states_.end()) return it->second;
  auto state = nvml_ ? mig::ReadDevice(**nvml_, uuid) : State(tl::unexpected(nvml_.error()));
  return states_.emplace(uuid, std::move(state)).first->second;
}

const base::Result<unsigned>& MigLook::PciIdOf(const std::string& uuid) {
  const auto it = pci_ids_.find(uuid);
  if (it != pci_ids_.end()) return it->second;
  return pci_ids_.emplace(uuid, ReadPciId(uuid)).first->second;
}

base::Result<unsigned> MigLook::ReadPciId(const std::string& uuid) const {
  if (!nvml_) return base::Fail(nvml_.error());
  const driver::Nvml& nvml = **nvml_;
  GPUMAN_ASSIGN(auto* const device, nvml.DeviceByUuid(uuid));
  driver::abi::nvmlPciInfo_t pci{};
  GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlDeviceGetPciInfo_v3, device, &pci));
  return pci.pciDeviceId;
}

std::vector<MigReading> ReadAll(MigLook& look, const std::vector<gpu::Gpu>& gpus) {
  std::vector<MigReading> readings;
  readings.reserve(gpus.size());
  for (const auto& gpu : gpus) readings.push_back({gpu, look.StateOf(gpu.uuid)});
  return readings;
}

base::Result<std::vector<MigOutcome>> PlanOrders(MigLook& look, const std::vector<MigOrder>& orders) {
  if (!look.nvml()) return base::Fail(look.nvml().error());
  return Plan(look, orders);
}

std::vector<std::string> HeldBy(const MigOutcome& outcome, const MigHolders& holders) {
  std::set<std::string> held;
  const auto add = [&](const std::string& uuid) {
    const auto holder = holders.find(uuid);
    if (holder != holders.end()) held.insert(holder->second);
  };
  for (const auto& step : outcome.plan.steps) {
    const bool is_mode = step.kind == mig::StepKind::kEnable || step.kind == mig::StepKind::kDisable;
    if (is_mode) add(outcome.gpu.uuid);
    if (step.kind != mig::StepKind::kDestroyCompute) continue;
    for (const auto& instance : outcome.before.instances)
      for (const auto& compute : instance.compute)
        if (instance.id == step.instance && compute.id == step.compute) add(compute.uuid);
  }
  return {held.begin(), held.end()};
}

base::Result<std::vector<MigOutcome>> ApplyOrders(const driver::LoadedNvml& nvml,
                                                  const std::vector<MigOrder>& orders,
                                                  const MigObstacles& obstacles) {
  if (!nvml) return base::Fail(nvml.error());
  MigLook look(nvml);
  GPUMAN_ASSIGN(auto outcomes, Plan(look, orders));
  bool may = true;
  for (auto& outcome : outcomes) {
    if (!outcome.error) outcome.error = WhyHeldUp(outcome, obstacles);
    may = may && !outcome.error;
  }
  for (auto& outcome : outcomes) {
    if (!may) break;
    Perform(**nvml, obstacles.own, outcome);
    may = outcome.done;
  }
  return outcomes;
}

namespace {

std::vector<MigOutcome> RestoreLost(const driver::LoadedNvml& nvml, const std::vector<MigOrder>& orders,
                                    const std::set<pid_t>& own) {
  MigLook look(nvml);
  auto outcomes =
      orders.empty() ? std::vector<MigOutcome>() : Plan(look, orders).value_or(std::vector<MigOutcome>());
  std::vector<MigOutcome> lost;
  for (auto& outcome : outcomes) {
    if (outcome.error || !mig::IsLost(outcome.before, outcome.wanted)) continue;
    if (IsHeldUp(outcome))
      outcome.error = mig::InTheWay(outcome.plan, own);
    else
      Perform(**nvml, own, outcome);
    lost.push_back(std::move(outcome));
  }
  return lost;
}

}  // namespace

MigRestoreResult CheckGpus(const driver::LoadedNvml& nvml, const std::vector<gpu::Gpu>& gpus,
                           const std::vector<MigOrder>& orders, const std::set<pid_t>& own) {
  MigRestoreResult check;
  if (!nvml) return check;
  check.lost = RestoreLost(nvml, orders, own);
  for (const auto& gpu : gpus) {
    const auto device = (*nvml)->DeviceByUuid(gpu.uuid);
    if (!device) continue;
    if (const auto mode = (*nvml)->MigMode(*device)) check.split[gpu.uuid] = mode->enabled;
  }
  return check;
}

}  // namespace gpuman::daemon
