#include "health/xid.h"

#include <algorithm>
#include <array>

namespace gpuman::health {
namespace {

constexpr XidCatalogEntry Program(unsigned xid, std::string_view name) {
  return {xid, name, HealthState::kHealthy, RepairAction::kRestartProgram};
}
constexpr XidCatalogEntry Informational(unsigned xid, std::string_view name) {
  return {xid, name, HealthState::kHealthy, RepairAction::kNone};
}
constexpr XidCatalogEntry Reset(unsigned xid, std::string_view name) {
  return {xid, name, HealthState::kUnhealthy, RepairAction::kReset};
}
constexpr XidCatalogEntry Link(unsigned xid, std::string_view name) {
  return {xid, name, HealthState::kDegraded, RepairAction::kInspectLink};
}

constexpr auto kClasses = std::to_array<XidCatalogEntry>({
    Program(8, "the GPU stopped processing"),
    Program(11, "invalid or corrupted push buffer"),
    Program(13, "graphics engine exception"),
    Program(25, "invalid or illegal push buffer stream"),
    Program(31, "GPU memory page fault"),
    Program(32, "invalid or corrupted push buffer stream"),
    Informational(37, "driver firmware error"),
    Informational(38, "driver firmware error"),
    Program(39, "copy engine exception"),
    Program(40, "copy engine exception"),
    Program(41, "copy engine exception"),
    Informational(43, "a program's own fault stopped its channel"),
    Informational(44, "graphics engine fault during context switch"),
    Informational(45, "preemptive cleanup, after an error that is told of by itself"),
    Reset(46, "the GPU stopped processing"),
    Reset(48, "double-bit ECC error"),
    {54, "auxiliary power is not connected to the GPU", HealthState::kUnhealthy,
     RepairAction::kCheckPowerCable},
    Program(60, "video processor exception"),
    Reset(62, "internal micro-controller halt"),
    Informational(63, "row remapping or page retirement recorded"),
    Reset(64, "row remapping or page retirement could not be recorded"),
    Informational(66, "illegal access by the driver"),
    Informational(67, "illegal access by the driver"),
    Program(68, "video decoder exception"),
    Program(69, "graphics engine class error"),
    Program(70, "copy engine exception"),
    Program(71, "copy engine exception"),
    Program(72, "copy engine exception"),
    Link(74, "NVLink error"),
    {79, "GPU has fallen off the bus", HealthState::kUnhealthy, RepairAction::kPowerCycle},
    Program(80, "corrupted data sent to the GPU"),
    Informational(92, "high rate of single-bit ECC errors"),
    Informational(93, "information ROM is not flashed right"),
    Program(94, "contained ECC error"),
    Reset(95, "uncontained ECC error"),
    Reset(109, "context switch timeout"),
    Reset(110, "security fault"),
    Reset(119, "GPU system processor did not answer in time"),
    Reset(120, "GPU system processor error"),
    Informational(121, "chip-to-chip link error that was corrected"),
    Reset(136, "link training failed"),
    Informational(137, "NVLink fault of the work of a program"),
    Reset(140, "unrecovered ECC error"),
    Reset(143, "GPU initialization error"),
    Link(144, "NVLink: error in the link layer (SAW)"),
    Link(145, "NVLink: error in the link layer (RLW)"),
    Link(146, "NVLink: error in the link layer (TLW)"),
    Link(147, "NVLink: error in the link layer (TREX)"),
    Link(148, "NVLink: error in the link layer (NVLPW CTRL)"),
    Link(149, "NVLink: error in the network layer (NETIR)"),
    Link(150, "NVLink: error in the link layer (MSE)"),
    Informational(154, "the recovery action of the GPU changed"),
    Reset(155, "NVLink: software-defined error"),
    Reset(156, "resource retirement event"),
    Reset(158, "GPU fatal timeout"),
});

constexpr bool IsAscending() {
  for (std::size_t i = 1; i < kClasses.size(); ++i)
    if (kClasses[i - 1].xid >= kClasses[i].xid) return false;
  return true;
}
static_assert(IsAscending());

}  // namespace

std::span<const XidCatalogEntry> XidClasses() { return kClasses; }

XidCatalogEntry ClassOf(unsigned xid) {
  const auto it =
      std::lower_bound(kClasses.begin(), kClasses.end(), xid,
                       [](const XidCatalogEntry& one, unsigned number) { return one.xid < number; });
  if (it != kClasses.end() && it->xid == xid) return *it;
  return {xid, "an error that this version does not know", HealthState::kHealthy, RepairAction::kNone};
}

}  // namespace gpuman::health
