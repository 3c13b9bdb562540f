#include "device/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::device {
namespace {

using base::ErrorCode;

// A clock may be a little above its lock while it settles.
constexpr std::uint32_t kClockSlackMhz = 50;

// The setting's value as far as it can be read: for ECC, the mode after the next reset; for clocks, nothing.
std::optional<Value> Readable(Setting setting, const DeviceReading& reading) {
  const auto* const reported = Find(reading, setting);
  if (!reported || IsClocks(setting)) return std::nullopt;
  return reported->pending ? reported->pending : reported->now;
}

void Uncover(SettingsRecord& record, Setting setting) {
  for (auto& layer : record.layers) layer.values.erase(setting);
  // A job's layer stays even if it is empty: it records that the job got its profile.
  std::erase_if(record.layers, [](const ActiveProfile& layer) { return layer.values.empty() && !layer.job; });
  record.before.erase(setting);
  record.to_restore.erase(setting);
}

bool IsCovered(const SettingsRecord& record, Setting setting) {
  return std::any_of(record.layers.begin(), record.layers.end(),
                     [&](const ActiveProfile& layer) { return layer.values.contains(setting); });
}

// Marks values that no layer covers any more as to be restored, unless administrators asked for another.
void GiveBack(SettingsRecord& record) {
  std::erase_if(record.before, [&](const auto& entry) {
    const auto& [setting, value] = entry;
    if (IsCovered(record, setting)) return false;
    if (!record.base.contains(setting)) record.to_restore[setting] = value;
    return true;
  });
}

}  // namespace

SettingsRecord WithValues(SettingsRecord record, const Values& values, const DeviceReading& reading,
                          base::WallTime now) {
  for (const auto& [setting, value] : values) {
    Uncover(record, setting);
    record.base[setting] = value;
    if (setting != Setting::kEcc) continue;
    const auto* const reported = Find(reading, setting);
    record.ecc_since.reset();
    record.ecc_asked =
        reported && reported->now != value ? std::optional(now) : std::optional<base::WallTime>();
  }
  return record;
}

SettingsRecord WithoutValues(SettingsRecord record, const Values& usual) {
  for (const auto& [setting, value] : usual) {
    Uncover(record, setting);
    record.base.erase(setting);
    record.to_restore[setting] = value;
  }
  return record;
}

SettingsRecord WithLayer(SettingsRecord record, ActiveProfile layer, const DeviceReading& reading) {
  record = WithoutLayer(std::move(record), layer.job.has_value());
  for (const auto& [setting, value] : layer.values) {
    if (const auto to_restore = record.to_restore.extract(setting)) {
      record.before[setting] = to_restore.mapped();
      continue;
    }
    if (record.base.contains(setting) || record.before.contains(setting)) continue;
    if (const auto found = Readable(setting, reading))
      record.before[setting] = *found;
    else if (IsClocks(setting))
      record.before[setting] = kUnlocked;
  }
  const auto place = layer.job ? record.layers.end() : record.layers.begin();
  record.layers.insert(place, std::move(layer));
  return record;
}

SettingsRecord WithoutLayer(SettingsRecord record, bool of_job) {
  std::erase_if(record.layers, [&](const ActiveProfile& layer) { return layer.job.has_value() == of_job; });
  GiveBack(record);
  return record;
}

SettingsRecord WithRestored(SettingsRecord record) {
  record.to_restore.clear();
  return record;
}

SettingsRecord WithEccSeen(SettingsRecord record, const DeviceReading& reading, base::WallTime now) {
  const auto wanted = record.base.find(Setting::kEcc);
  const auto* const reported = Find(reading, Setting::kEcc);
  if (!record.ecc_asked || wanted == record.base.end() || !reported || reported->now != wanted->second)
    return record;
  record.ecc_asked.reset();
  record.ecc_since = now;
  return record;
}

base::Result<Values> ResolveAll(std::span<const DesiredSetting> desired, const DeviceReading& reading,
                                const SettingsRecord& record) {
  const auto wanted = Wanted(record);
  const auto lock_of = [&](Setting setting) -> std::optional<Value> {
    const auto it = wanted.find(setting);
    return it == wanted.end() || it->second == kUnlocked ? std::nullopt : std::optional(it->second);
  };
  std::vector<const DesiredSetting*> order;
  for (const auto& each : desired) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(),
                   [](const DesiredSetting* a, const DesiredSetting* b) { return a->setting < b->setting; });
  Values values;
  auto memory = lock_of(Setting::kMemoryClocks);
  bool memory_asked = false, graphics_asked = false;
  for (const DesiredSetting* each : order) {
    const auto mhz = memory ? std::optional(memory->high) : std::nullopt;
    GPUMAN_ASSIGN(const auto value, Resolve(*each, reading, mhz));
    values[each->setting] = value;
    graphics_asked |= each->setting == Setting::kGraphicsClocks;
    if (each->setting != Setting::kMemoryClocks) continue;
    memory_asked = value != kUnlocked;
    memory = memory_asked ? std::optional(value) : std::nullopt;
  }
  const auto graphics = lock_of(Setting::kGraphicsClocks);
  if (!memory_asked || graphics_asked || !graphics) return values;
  const auto with = reading.clocks.find(memory->high);
  if (with == reading.clocks.end()) return values;
  const auto fits = [&](std::uint32_t mhz) {
    return std::binary_search(with->second.begin(), with->second.end(), mhz);
  };
  if (fits(graphics->low) && fits(graphics->high)) return values;
  return base::Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("the graphics clocks are locked to {} MHz, which do not go with memory at {} MHz",
                  Format(Setting::kGraphicsClocks, *graphics), memory->high),
      "lock both at once: gpuman device clocks lock --memory … --graphics …");
}

std::vector<DevicePlanStep> StepsTo(const SettingsRecord& next, const SettingsRecord& former,
                                    const DeviceReading& reading, bool anew) {
  Values goals = Wanted(next);
  goals.insert(next.to_restore.begin(), next.to_restore.end());
  const auto wanted_before = Wanted(former);
  std::vector<DevicePlanStep> steps, last;
  for (const auto& [setting, goal] : goals) {
    DevicePlanStep step{setting, Readable(setting, reading), goal};
    if (IsClocks(setting)) {
      const auto it = wanted_before.find(setting);
      step.from = it == wanted_before.end() ? kUnlocked : it->second;
      const bool is_to_restore = next.to_restore.contains(setting);
      if (!anew && !is_to_restore && step.from == goal && it != wanted_before.end()) continue;
    } else if (step.from == goal) {
      continue;
    }
    // Without persistence the driver may forget the settings that are made after it.
    (setting == Setting::kPersistence && goal == Switch(false) ? last : steps).push_back(step);
  }
  steps.insert(steps.end(), last.begin(), last.end());
  return steps;
}

std::vector<Drift> DriftOf(const SettingsRecord& record, const DeviceReading& reading) {
  std::vector<Drift> drift;
  for (const auto& [setting, wanted] : Wanted(record)) {
    if (IsClocks(setting)) {
      const auto mhz = setting == Setting::kMemoryClocks ? reading.memory_mhz : reading.graphics_mhz;
      if (wanted != kUnlocked && mhz && *mhz > wanted.high + kClockSlackMhz)
        drift.push_back({setting, wanted, Clocks(*mhz, *mhz)});
      continue;
    }
    const auto found = Readable(setting, reading);
    if (found && *found != wanted) drift.push_back({setting, wanted, *found});
  }
  return drift;
}

}  // namespace gpuman::device
