#include "sim/tool/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "sim/state/limits.h"

namespace gpuman::sim {
namespace {

using nlohmann::json;

constexpr const char* kCheckpointWords[] = {"running", "locked", "checkpointed", "failed"};

struct ProcessRow {
  std::uint32_t pid = 0;  // 0: of a namespace that this process cannot see
  std::string name;
  const char* checkpoint = "";
  std::vector<std::uint64_t> held;      // by GPU
  std::vector<std::uint32_t> contexts;  // by GPU
};

// Claims no slot; first returns the memory of ended processes, so that the totals are right.
std::vector<ProcessRow> Processes(const State& state) {
  std::vector<ProcessRow> rows;
  Client onlooker(state);
  for (const ProcessSlot* slot : onlooker.LiveSlots()) {
    ProcessRow row{
        onlooker.PidOf(*slot), slot->name, kCheckpointWords[slot->checkpoint.state.load() & 3], {}, {}};
    for (unsigned gpu = 0; gpu < state.gpus(); ++gpu) {
      row.held.push_back(HeldBy(state.shared(), *slot, gpu));
      row.contexts.push_back(slot->gpu[gpu].contexts.load());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Size(std::uint64_t bytes) { return base::FormatBytes({bytes}); }

json Number(const Signed64& value) {
  const auto number = value.load();
  return number == kNotInjected ? json(nullptr) : json(number);
}

}  // namespace

std::string ShowText(const State& state) {
  std::string text =
      fmt::format("simulated {} x {}, driver {}\n", state.gpus(), state->profile, state->driver_version);
  const auto processes = Processes(state);
  for (unsigned gpu = 0; gpu < state.gpus(); ++gpu) {
    text += fmt::format("GPU {}  {}  {}  {} of {} used{}\n", gpu, state->gpu_static[gpu].name,
                        state->gpu_static[gpu].uuid, Size(DeviceUsed(state.shared(), gpu)),
                        Size(DeviceCapacity(state.shared(), gpu)),
                        state->gpu[gpu].lost.load() != 0 ? "  LOST" : "");
    for (const auto& process : processes) {
      if (process.held[gpu] == 0 && process.contexts[gpu] == 0) continue;
      text +=
          fmt::format("  {:>8}  {:<16} {:>10}  {}\n", process.pid == 0 ? "-" : std::to_string(process.pid),
                      process.name, Size(process.held[gpu]), process.checkpoint);
    }
  }
  return text;
}

std::string ShowJson(const State& state) {
  json root{{"profile", state->profile}, {"driver_version", state->driver_version}, {"gpus", json::array()}};
  const auto processes = Processes(state);
  for (unsigned gpu = 0; gpu < state.gpus(); ++gpu) {
    const GpuStatic& fixed = state->gpu_static[gpu];
    const GpuDynamic& now = state->gpu[gpu];
    json row{{"index", gpu},
             {"uuid", fixed.uuid},
             {"name", fixed.name},
             {"memory",
              {{"total", fixed.memory_total},
               {"reserved", fixed.memory_reserved},
               {"used", DeviceUsed(state.shared(), gpu)}}},
             {"context_overhead", fixed.context_overhead},
             {"lost", now.lost.load() != 0},
             {"injected",
              {{"temperature_c", Number(now.temperature_c)},
               {"power_mw", Number(now.power_mw)},
               {"throttle_reasons", Number(now.throttle_reasons)}}},
             {"processes", json::array()},
             {"limits", json::array()}};
    for (const auto& process : processes) {
      if (process.held[gpu] == 0 && process.contexts[gpu] == 0) continue;
      row["processes"].push_back({{"pid", process.pid == 0 ? json(nullptr) : json(process.pid)},
                                  {"name", process.name},
                                  {"memory", process.held[gpu]},
                                  {"contexts", process.contexts[gpu]},
                                  {"checkpoint", process.checkpoint}});
    }
    for (const auto& limit : GroupLimitsOn(state.shared(), gpu))
      row["limits"].push_back(
          {{"cgroup", limit.path}, {"soft", limit.soft}, {"hard", limit.hard}, {"times", limit.times}});
    root["gpus"].push_back(std::move(row));
  }
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace gpuman::sim
