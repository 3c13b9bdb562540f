#include "health/rules.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace gpuman::health {
namespace {

using base::Millis;
using Found = std::optional<std::string>;

constexpr Millis kAtOnce{0};
constexpr Millis kSoon{10'000};  // the driver's figures may lag behind a reset
constexpr Millis kMinute{60'000};
constexpr Millis kTenMinutes{600'000};

constexpr auto kRules = std::to_array<Rule>({
    {"lost", HealthState::kUnhealthy, RepairAction::kReset, kAtOnce, kAtOnce, "NVML cannot talk to the GPU"},
    {"silent", HealthState::kUnhealthy, RepairAction::kReset, kAtOnce, kAtOnce,
     "a driver call about the GPU does not come back"},
    {"missing", HealthState::kUnhealthy, RepairAction::kReboot, kAtOnce, kAtOnce,
     "a GPU that this machine had is not among the driver's"},
    {"recovery_reset", HealthState::kUnhealthy, RepairAction::kReset, kAtOnce, kSoon,
     "the driver asks for a reset of the GPU"},
    {"recovery_reboot", HealthState::kUnhealthy, RepairAction::kReboot, kAtOnce, kSoon,
     "the driver asks for a reboot"},
    {"recovery_drain_peers", HealthState::kDegraded, RepairAction::kDrainPeers, kAtOnce, kSoon,
     "the driver asks that the GPUs linked to it be drained"},
    {"recovery_drain_and_reset", HealthState::kUnhealthy, RepairAction::kDrainAndReset, kAtOnce, kSoon,
     "the driver asks for a reset when nothing runs"},
    {"double_bit_ecc", HealthState::kUnhealthy, RepairAction::kDrainAndReset, kAtOnce, kSoon,
     "uncorrected memory errors since the driver was loaded"},
    {"row_remap_failed", HealthState::kUnhealthy, RepairAction::kFieldDiagnostics, kAtOnce, kSoon,
     "a broken row of memory could not be replaced by a spare one"},
    {"sram_threshold", HealthState::kUnhealthy, RepairAction::kFieldDiagnostics, kAtOnce, kSoon,
     "more errors in on-chip memory than NVIDIA's threshold"},
    {"retired_pages", HealthState::kUnhealthy, RepairAction::kFieldDiagnostics, kAtOnce, kSoon,
     "63 or more pages of memory are retired"},
    {"row_remap_pending", HealthState::kDegraded, RepairAction::kResetWhenIdle, kAtOnce, kSoon,
     "a broken row of memory is replaced with the next reset"},
    {"retirement_pending", HealthState::kDegraded, RepairAction::kResetWhenIdle, kAtOnce, kSoon,
     "a broken page of memory is retired with the next reset"},
    {"row_remaps", HealthState::kDegraded, RepairAction::kFieldDiagnostics, kAtOnce, kSoon,
     "512 or more rows were replaced after uncorrectable errors"},
    {"pcie_replays", HealthState::kDegraded, RepairAction::kInspectLink, kAtOnce, kTenMinutes,
     "more transfers repeated on the bus in a minute than its speed and width allow"},
    {"hardware_slowdown", HealthState::kDegraded, RepairAction::kInspectCooling, kAtOnce, kTenMinutes,
     "slowed by temperature or power in six of the last ten minutes"},
    {"nvlink_crc", HealthState::kDegraded, RepairAction::kInspectLink, kAtOnce, kTenMinutes,
     "100 or more errors a second on its links"},
    {"nvlink_down", HealthState::kUnhealthy, RepairAction::kInspectLink, kSoon, kMinute,
     "a link to another GPU is down"},
});

constexpr std::uint64_t kRetiredPages = 63;
constexpr std::uint64_t kRowRemaps = 512;
constexpr int kSlowMinutes = 6;  // 0.6 a minute over ten
constexpr double kCrcErrorsPerSecond = 100;

template <typename Value, typename Text>
void Say(RuleResults& results, std::string_view code, const std::optional<Value>& value, bool holds,
         Text text) {
  if (value) results[code] = holds ? Found(text()) : std::nullopt;
}

void CheckRecovery(RuleResults& results, const std::optional<Recovery>& recovery) {
  constexpr std::array<std::pair<Recovery, std::string_view>, 4> kCodes = {{
      {Recovery::kReset, "recovery_reset"},
      {Recovery::kReboot, "recovery_reboot"},
      {Recovery::kDrainPeers, "recovery_drain_peers"},
      {Recovery::kDrainAndReset, "recovery_drain_and_reset"},
  }};
  for (const auto& [value, code] : kCodes)
    Say(results, code, recovery, recovery == value,
        [code = code] { return std::string(RuleOf(code)->meaning); });
}

void CheckMemory(RuleResults& results, const HealthRuleInput& r) {
  Say(results, "double_bit_ecc", r.double_bit_errors, r.double_bit_errors > 0, [&] {
    return fmt::format("{} uncorrected memory error{} since the driver was loaded", *r.double_bit_errors,
                       *r.double_bit_errors == 1 ? "" : "s");
  });
  Say(results, "row_remap_failed", r.remap_failed, r.remap_failed == true,
      [] { return "a broken row of its memory could not be replaced"; });
  Say(results, "row_remap_pending", r.remap_pending, r.remap_pending == true,
      [] { return "a broken row of its memory waits for a reset to be replaced"; });
  Say(results, "row_remaps", r.uncorrectable_remaps, r.uncorrectable_remaps >= kRowRemaps, [&] {
    return fmt::format("{} rows of its memory were replaced after uncorrectable errors",
                       *r.uncorrectable_remaps);
  });
  Say(results, "retired_pages", r.retired_pages, r.retired_pages >= kRetiredPages,
      [&] { return fmt::format("{} pages of its memory are retired", *r.retired_pages); });
  Say(results, "retirement_pending", r.retirement_pending, r.retirement_pending == true,
      [] { return "a broken page of its memory waits for a reset to be retired"; });
  Say(results, "sram_threshold", r.sram_threshold_exceeded, r.sram_threshold_exceeded == true,
      [] { return "its on-chip memory had more errors than NVIDIA's threshold"; });
}

}  // namespace

std::span<const Rule> Rules() { return kRules; }

const Rule* RuleOf(std::string_view code) {
  for (const Rule& rule : kRules)
    if (rule.code == code) return &rule;
  return nullptr;
}

std::optional<unsigned> ReplaysAllowed(unsigned generation, unsigned lanes) {
  constexpr std::array<double, 6> kPerLane = {0.15, 0.3, 0.48, 0.96, 1.92, 3.84};
  if (generation == 0 || generation > kPerLane.size()) return std::nullopt;
  return static_cast<unsigned>(std::ceil(lanes * kPerLane[generation - 1]));
}

RuleResults RuleEvaluator::Check(base::MonoTime now, const HealthRuleInput& r) {
  RuleResults results;
  results["missing"] =
      r.missing ? Found("it was in this machine, and the driver does not show it") : std::nullopt;
  if (r.missing) return results;
  results["lost"] = r.lost.empty() ? Found() : Found(r.lost);
  results["silent"] = r.silent.empty() ? Found() : Found(r.silent);
  if (!r.lost.empty() || !r.silent.empty()) return results;
  CheckRecovery(results, r.recovery);
  CheckMemory(results, r);

  CheckBus(now, r, results);
  CheckSlowdowns(now, r, results);
  CheckLinks(now, r, results);
  return results;
}

void RuleEvaluator::CheckBus(base::MonoTime now, const HealthRuleInput& r, RuleResults& results) {
  if (!r.pcie_replays) return;
  replays_.Add(now, *r.pcie_replays);
  const auto rate = replays_.RatePer(kMinute);
  if (!rate || !r.pcie_generation || !r.pcie_lanes) return;
  const auto allowed = ReplaysAllowed(*r.pcie_generation, *r.pcie_lanes);
  if (!allowed) return;
  Found& found = results["pcie_replays"];
  if (*rate > *allowed)
    found = fmt::format("{:.0f} transfers a minute were repeated on the bus; PCIe {} x{} may have {}", *rate,
                        *r.pcie_generation, *r.pcie_lanes, *allowed);
}

void RuleEvaluator::CheckSlowdowns(base::MonoTime now, const HealthRuleInput& r, RuleResults& results) {
  if (!r.hardware_slowdown) return;
  slowdowns_.Add(now, *r.hardware_slowdown);
  Found& found = results["hardware_slowdown"];
  if (slowdowns_.Count() >= kSlowMinutes)
    found = fmt::format("slowed by temperature or power in {} of the last 10 minutes", slowdowns_.Count());
}

void RuleEvaluator::CheckLinks(base::MonoTime now, const HealthRuleInput& r, RuleResults& results) {
  if (r.nvlinks_down) {
    Found& down = results["nvlink_down"];
    if (*r.nvlinks_down > 0) down = fmt::format("{} of its links to other GPUs are down", *r.nvlinks_down);
  }
  if (!r.nvlink_crc_errors) return;
  crc_errors_.Add(now, *r.nvlink_crc_errors);
  const auto rate = crc_errors_.RatePer(Millis(1'000));
  if (!rate) return;
  Found& found = results["nvlink_crc"];
  if (*rate >= kCrcErrorsPerSecond) found = fmt::format("{:.0f} errors a second on its links", *rate);
}

}  // namespace gpuman::health
