#include "device/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::device {
namespace {

using base::ErrorCode;

// A clock reads a little above its lock while it settles.
constexpr std::uint32_t kClockSlackMhz = 50;

// What the setting is: of ECC, what it will be; of clocks, nobody knows.
std::optional<Value> Readable(Setting setting, const Reading& reading) {
  const auto* const reported = Find(reading, setting);
  if (!reported || IsClocks(setting)) return std::nullopt;
  return reported->pending ? reported->pending : reported->now;
}

void Uncover(Record& record, Setting setting) {
  for (auto& layer : record.layers) layer.values.erase(setting);
  // That of a job stays, empty as it is: the job has got what it asked for.
  std::erase_if(record.layers, [](const Layer& layer) { return layer.values.empty() && !layer.job; });
  record.before.erase(setting);
  record.owed.erase(setting);
}

bool IsCovered(const Record& record, Setting setting) {
  return std::any_of(record.layers.begin(), record.layers.end(),
                     [&](const Layer& layer) { return layer.values.contains(setting); });
}

// What no layer covers any more is owed, unless somebody asked for it.
void GiveBack(Record& record) {
  std::erase_if(record.before, [&](const auto& entry) {
    const auto& [setting, value] = entry;
    if (IsCovered(record, setting)) return false;
    if (!record.base.contains(setting)) record.owed[setting] = value;
    return true;
  });
}

}  // namespace

Record WithValues(Record record, const Values& values, const Reading& reading, base::WallTime now) {
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

Record WithoutValues(Record record, const Values& usual) {
  for (const auto& [setting, value] : usual) {
    Uncover(record, setting);
    record.base.erase(setting);
    record.owed[setting] = value;
  }
  return record;
}

Record WithLayer(Record record, Layer layer, const Reading& reading) {
  record = WithoutLayer(std::move(record), layer.job.has_value());
  for (const auto& [setting, value] : layer.values) {
    if (const auto owed = record.owed.extract(setting)) {
      record.before[setting] = owed.mapped();
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

Record WithoutLayer(Record record, bool of_job) {
  std::erase_if(record.layers, [&](const Layer& layer) { return layer.job.has_value() == of_job; });
  GiveBack(record);
  return record;
}

Record Settled(Record record) {
  record.owed.clear();
  return record;
}

Record WithEccSeen(Record record, const Reading& reading, base::WallTime now) {
  const auto wanted = record.base.find(Setting::kEcc);
  const auto* const reported = Find(reading, Setting::kEcc);
  if (!record.ecc_asked || wanted == record.base.end() || !reported || reported->now != wanted->second)
    return record;
  record.ecc_asked.reset();
  record.ecc_since = now;
  return record;
}

base::Result<Values> ResolveAll(std::span<const Wish> wishes, const Reading& reading, const Record& record) {
  const auto wanted = Wanted(record);
  const auto lock_of = [&](Setting setting) -> std::optional<Value> {
    const auto it = wanted.find(setting);
    return it == wanted.end() || it->second == kUnlocked ? std::nullopt : std::optional(it->second);
  };
  std::vector<const Wish*> order;
  for (const auto& wish : wishes) order.push_back(&wish);
  std::stable_sort(order.begin(), order.end(),
                   [](const Wish* a, const Wish* b) { return a->setting < b->setting; });
  Values values;
  auto memory = lock_of(Setting::kMemoryClocks);
  bool memory_asked = false, graphics_asked = false;
  for (const Wish* wish : order) {
    const auto mhz = memory ? std::optional(memory->high) : std::nullopt;
    GPUMAN_ASSIGN(const auto value, Resolve(*wish, reading, mhz));
    values[wish->setting] = value;
    graphics_asked |= wish->setting == Setting::kGraphicsClocks;
    if (wish->setting != Setting::kMemoryClocks) continue;
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

std::vector<Step> StepsTo(const Record& next, const Record& former, const Reading& reading, bool anew) {
  Values goals = Wanted(next);
  goals.insert(next.owed.begin(), next.owed.end());
  const auto wanted_before = Wanted(former);
  std::vector<Step> steps, last;
  for (const auto& [setting, goal] : goals) {
    Step step{setting, Readable(setting, reading), goal};
    if (IsClocks(setting)) {
      const auto it = wanted_before.find(setting);
      step.from = it == wanted_before.end() ? kUnlocked : it->second;
      const bool is_owed = next.owed.contains(setting);
      if (!anew && !is_owed && step.from == goal && it != wanted_before.end()) continue;
    } else if (step.from == goal) {
      continue;
    }
    // Without persistence the driver may forget what is set after it.
    (setting == Setting::kPersistence && goal == Switch(false) ? last : steps).push_back(step);
  }
  steps.insert(steps.end(), last.begin(), last.end());
  return steps;
}

std::vector<Drift> DriftOf(const Record& record, const Reading& reading) {
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
