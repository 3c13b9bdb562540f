#include "sim/nvml/readings.h"

#include <time.h>

#include <algorithm>

namespace gpuman::sim {
namespace {

constexpr int kHeatAtFullLoad = 35;                  // degrees above idle
constexpr std::uint64_t kPowerShareAtFullLoad = 90;  // percent of the way from idle to the limit
constexpr std::uint64_t kAwakeAfterLastContextNs = 2'100'000'000;  // measured on an H200

std::optional<std::int64_t> Injected(const Signed64& reading) {
  const std::int64_t value = reading.load(std::memory_order_relaxed);
  return value == kNotInjected ? std::nullopt : std::optional(value);
}

// The highest clock that is allowed at present.
unsigned CeilingMhz(const Gpu& gpu, ClockKind kind) {
  const unsigned highest = gpu.fixed.clock_max_mhz[static_cast<unsigned>(kind)];
  const Word32& locked =
      kind == ClockKind::kMemory ? gpu.now.locked_memory_max_mhz : gpu.now.locked_graphics_max_mhz;
  const Word32& application =
      kind == ClockKind::kMemory ? gpu.now.application_memory_mhz : gpu.now.application_graphics_mhz;
  if (kind == ClockKind::kVideo) return highest;
  if (const unsigned limit = locked.load(); limit != 0) return std::min(highest, limit);
  if (const unsigned limit = application.load(); gpu.Has(kFeatureApplicationClocks) && limit != 0)
    return limit;
  return highest;
}

// Counts how long the clocks were high until now, from look to look: a context counts from the first look at
// it. Returns whether they are high now.
bool CountAwake(const Gpu& gpu) {
  const std::uint64_t now = MonotonicNs();
  const std::uint64_t until = gpu.now.awake_until_ns.load();
  std::uint64_t counted = gpu.now.awake_counted_ns.load();
  if (counted < now && gpu.now.awake_counted_ns.compare_exchange_strong(counted, now) && until > counted)
    gpu.now.awake_ns.fetch_add(std::min(until, now) - counted);
  if (!HasContexts(gpu)) return until > now;
  gpu.now.awake_until_ns.store(now + kAwakeAfterLastContextNs);
  return true;
}

}  // namespace

bool HasContexts(const Gpu& gpu) {
  for (const ProcessSlot* slot : gpu.client.LiveSlots()) {
    if (slot->gpu[gpu.index].contexts.load() != 0) return true;
    for (const MigInstance& instance : MigInstances(gpu.shared, gpu.index))
      if (slot->gpu[instance.device()].contexts.load() != 0) return true;
  }
  return false;
}

unsigned UtilizationPercent(const Gpu& gpu) {
  if (const auto value = Injected(gpu.now.utilization_gpu)) return static_cast<unsigned>(*value);
  gpu.client.SweepDead();
  return DeviceUtilization(gpu.shared, gpu.index, MonotonicNs());
}

unsigned MemoryUtilizationPercent(const Gpu& gpu) {
  if (const auto value = Injected(gpu.now.utilization_memory)) return static_cast<unsigned>(*value);
  return UtilizationPercent(gpu) / 2;
}

unsigned ClockMhz(const Gpu& gpu, ClockKind kind) {
  if (HasContexts(gpu)) return CeilingMhz(gpu, kind);
  const unsigned idle = gpu.fixed.clock_idle_mhz[static_cast<unsigned>(kind)];
  const Word32& floor =
      kind == ClockKind::kMemory ? gpu.now.locked_memory_min_mhz : gpu.now.locked_graphics_min_mhz;
  return kind == ClockKind::kVideo ? idle : std::max(idle, floor.load());
}

unsigned PowerMilliwatts(const Gpu& gpu) {
  if (const auto value = Injected(gpu.now.power_mw)) return static_cast<unsigned>(*value);
  const std::uint64_t idle = gpu.fixed.power_idle_mw;
  const std::uint64_t limit = std::max<std::uint64_t>(idle, gpu.now.power_limit_mw.load());
  const std::uint64_t at_work =
      idle + (limit - idle) * UtilizationPercent(gpu) * kPowerShareAtFullLoad / 10'000;
  return static_cast<unsigned>(
      std::max(at_work, CountAwake(gpu) ? std::uint64_t{gpu.fixed.power_context_mw} : idle));
}

int TemperatureCelsius(const Gpu& gpu) {
  if (const auto value = Injected(gpu.now.temperature_c)) return static_cast<int>(*value);
  return gpu.fixed.temperature_idle_c + static_cast<int>(UtilizationPercent(gpu)) * kHeatAtFullLoad / 100;
}

int MemoryTemperatureCelsius(const Gpu& gpu) {
  if (const auto value = Injected(gpu.now.memory_temperature_c)) return static_cast<int>(*value);
  return TemperatureCelsius(gpu) + gpu.fixed.memory_temperature_idle_c - gpu.fixed.temperature_idle_c;
}

std::uint64_t ThrottleReasons(const Gpu& gpu) {
  if (const auto value = Injected(gpu.now.throttle_reasons)) return static_cast<std::uint64_t>(*value);
  if (UtilizationPercent(gpu) == 0) return nvmlClocksEventReasonGpuIdle;
  const bool limited = CeilingMhz(gpu, ClockKind::kGraphics) < gpu.fixed.clock_max_mhz[0];
  return limited ? nvmlClocksEventReasonApplicationsClocksSetting : 0;
}

// At rest the device draws its idle power, with a context more, and while a kernel runs what it draws at full
// load.
std::uint64_t EnergyMillijoules(const Gpu& gpu) {
  const std::uint64_t now = MonotonicNs();
  std::uint64_t worked = gpu.now.worked_ns.load();
  for (const ProcessSlot* slot : gpu.client.LiveSlots())
    if (const std::uint64_t since = slot->gpu[gpu.index].busy_since_ns.load(); since != 0 && since < now)
      worked += now - since;
  const std::uint64_t idle = gpu.fixed.power_idle_mw;
  const std::uint64_t limit = std::max<std::uint64_t>(idle, gpu.now.power_limit_mw.load());
  const std::uint64_t above = (limit - idle) * kPowerShareAtFullLoad / 100;
  (void)CountAwake(gpu);
  const std::uint64_t awake = gpu.now.awake_ns.load(), waits = awake > worked ? awake - worked : 0;
  const std::uint64_t context = std::max<std::uint64_t>(idle, gpu.fixed.power_context_mw) - idle;
  const std::uint64_t used = (now - gpu.now.energy_since_ns.load()) / 1'000'000 * idle / 1000 +
                             worked / 1'000'000 * above / 1000 + waits / 1'000'000 * context / 1000;
  std::uint64_t shown = gpu.now.energy_shown_mj.load();
  while (shown < used && !gpu.now.energy_shown_mj.compare_exchange_weak(shown, used)) continue;
  return std::max(shown, used);
}

std::uint64_t RealtimeUs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

}  // namespace gpuman::sim
