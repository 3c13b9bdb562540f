#include "daemon/health/monitors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "daemon/health/kernel_log.h"
#include "health/record.h"

namespace gpuman::daemon {
namespace {

//   "health/GPU-…"     {"boot":"6c3f…","faults":[…],"v":1}
//   "health_log"       {"boot":"6c3f…","us":98765432}: the kernel's log was read so far
constexpr std::string_view kHealthKey = "health/";
constexpr const char* kLogKey = "health_log";

// How far the kernel's log was read, since the boot.
struct LogPosition {
  std::string boot;
  std::chrono::microseconds read_to{0};
};
template <typename V, base::json::Of<LogPosition> T>
void Fields(V& v, T& x) {
  v.Required("boot", x.boot);
  v.Required("us", x.read_to);
}

std::string HealthKeyOf(const std::string& uuid) { return std::string(kHealthKey) + uuid; }

}  // namespace

void HealthMonitors::Recall(const jobs::SettingRows& settings) {
  for (const auto& [key, text] : settings) {
    if (!text) continue;
    if (key == kLogKey) {
      const auto position = base::json::FromText<LogPosition>(*text, {}, kLogKey);
      if (position && position->boot == boot_) log_read_to_ = position->read_to;
      continue;
    }
    if (!key.starts_with(kHealthKey)) continue;
    auto record = health::ParseRecord(*text);
    if (!record) continue;  // the first sample makes a new record
    const auto uuid = key.substr(kHealthKey.size());
    MonitoredGpu& monitored = EntryOf(uuid);
    monitored.is_stored = record->boot == boot_;
    monitored.stored = record->faults;
    Tell(uuid, monitored.monitor.Restore(std::move(record->faults), record->boot != boot_, Now()));
  }
}

void HealthMonitors::SetSettings(const health::MonitorSettings& settings) {
  settings_ = settings;
  for (auto& [uuid, monitored] : gpus_) monitored.monitor.SetSettings(settings);
}

HealthMonitors::MonitoredGpu& HealthMonitors::EntryOf(const std::string& uuid) {
  return gpus_.try_emplace(uuid, settings_).first->second;
}

void HealthMonitors::OnInventory(const gpu::Inventory& inventory) {
  const bool whole = !inventory.gpus.empty() && inventory.problem.empty();
  for (const auto& gpu : inventory.gpus) Tell(gpu.uuid, (EntryOf(gpu.uuid), health::Notices{}));
  std::vector<std::string> known;
  for (const auto& [uuid, monitored] : gpus_) known.push_back(uuid);
  for (const auto& uuid : known) {
    const bool here = std::any_of(inventory.gpus.begin(), inventory.gpus.end(),
                                  [&](const gpu::Gpu& gpu) { return gpu.uuid == uuid; });
    MonitoredGpu& monitored = gpus_.at(uuid);
    monitored.missing = !here;
    // Without a driver, or with devices that the driver could not name, the daemon cannot say whether the GPU
    // is missing.
    if (here || !whole) continue;
    health::HealthRuleInput reading;
    reading.missing = true;
    Tell(uuid, monitored.monitor.On(reading, Now()));
  }
}

void HealthMonitors::OnSample(const gpu::GpuSample& sample) {
  health::HealthRuleInput reading;
  static_cast<gpu::HealthReading&>(reading) = sample.health;
  if (sample.state == gpu::GpuReachability::kLost)
    reading.lost = sample.error.empty() ? "the GPU is lost" : sample.error;
  if (sample.state == gpu::GpuReachability::kUnresponsive)
    reading.silent = sample.error.empty() ? "the driver does not answer" : sample.error;
  MonitoredGpu& monitored = EntryOf(sample.uuid);
  monitored.missing = false;
  Tell(sample.uuid, monitored.monitor.On(reading, Now()));
}

void HealthMonitors::OnXid(const std::string& uuid, unsigned xid) {
  const auto now = Now();
  Tell(uuid, EntryOf(uuid).monitor.On(health::XidOccurrence{xid, {}, {}, now.wall}, now));
  KeepLogTime();  // the log has it as well
}

void HealthMonitors::OnKernelLog(const std::vector<KernelXid>& xids, const gpu::Inventory& inventory) {
  const auto now = Now();
  const auto booted = now.wall - std::chrono::duration_cast<base::Millis>(SinceBoot());
  for (const auto& one : xids) {
    if (one.since_boot <= log_read_to_) continue;
    const auto gpu = std::find_if(inventory.gpus.begin(), inventory.gpus.end(), [&](const gpu::Gpu& each) {
      return health::IsSameDevice(each.pci_bus_id, one.logged.pci);
    });
    if (gpu == inventory.gpus.end()) continue;
    const auto at = booted + std::chrono::duration_cast<base::Millis>(one.since_boot);
    Tell(gpu->uuid, EntryOf(gpu->uuid).monitor.On(
                        health::XidOccurrence{one.logged.xid, one.logged.pid, one.logged.text, at}, now));
  }
  KeepLogTime();
}

std::chrono::microseconds HealthMonitors::SinceBoot() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(clock_.Mono().time_since_epoch());
}

void HealthMonitors::KeepLogTime() {
  log_read_to_ = SinceBoot();
  callbacks_.keep({{kLogKey, base::json::ToText(LogPosition{boot_, log_read_to_}, {})}});
}

base::Result<> HealthMonitors::Acknowledge(const std::string& uuid, const std::string& code,
                                           const std::string& by) {
  const auto it = gpus_.find(uuid);
  const auto notices =
      it == gpus_.end() ? health::Notices{} : it->second.monitor.Acknowledge(code, by, Now());
  if (notices.empty()) {
    return base::Fail(base::ErrorCode::kNotFound,
                      code.empty()
                          ? "there is nothing on this GPU that is not acknowledged"
                          : fmt::format("there is no fault '{}' on this GPU that is not acknowledged", code),
                      "gpuman health shows what there is");
  }
  Tell(uuid, notices);
  const auto faults = it->second.monitor.faults();
  const bool is_gone = std::any_of(faults.begin(), faults.end(),
                                   [](const health::HealthFault& fault) { return fault.code == "missing"; });
  if (!it->second.missing || !is_gone) return {};
  gpus_.erase(it);
  callbacks_.keep({{HealthKeyOf(uuid), std::nullopt}});
  return {};
}

void HealthMonitors::Tell(const std::string& uuid, const health::Notices& notices) {
  MonitoredGpu& monitored = gpus_.at(uuid);
  const auto faults = monitored.monitor.faults();
  // Changes of figures alone, which come every second, are not written.
  const bool is_same =
      std::equal(faults.begin(), faults.end(), monitored.stored.begin(), monitored.stored.end(),
                 [](const auto& a, const auto& b) {
                   return a.code == b.code && a.count == b.count && a.acknowledged == b.acknowledged;
                 });
  if (!monitored.is_stored || !is_same) {
    monitored.is_stored = true;
    monitored.stored = faults;
    callbacks_.keep({{HealthKeyOf(uuid), health::SerializeRecord({boot_, faults})}});
  }
  for (const auto& notice : notices) callbacks_.on_notice(uuid, notice);
}

const health::Monitor* HealthMonitors::Find(const std::string& uuid) const {
  const auto it = gpus_.find(uuid);
  return it == gpus_.end() ? nullptr : &it->second.monitor;
}

bool HealthMonitors::IsUnhealthy(const std::string& uuid) const {
  const auto* const monitor = Find(uuid);
  return monitor && monitor->verdict().state == health::HealthState::kUnhealthy;
}

std::vector<std::string> HealthMonitors::Missing() const {
  std::vector<std::string> missing;
  for (const auto& [uuid, monitored] : gpus_)
    if (monitored.missing) missing.push_back(uuid);
  return missing;
}

}  // namespace gpuman::daemon
