#include "cli/health_views.h"

#include <fmt/format.h>

#include "cli/queue/when.h"
#include "cli/text.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

std::string NameOf(const api::GpuHealth& gpu) { return gpu.index ? std::to_string(*gpu.index) : gpu.uuid; }

std::string Faults(const api::GpuHealth& gpu) {
  std::string text;
  for (const auto& fault : gpu.faults) {
    text += fmt::format("GPU {}: {}: {} (since {}", NameOf(gpu), fault.code, Printable(fault.text),
                        queue::FormatLocal(fault.since));
    if (fault.count > 1)
      text += fmt::format(", {} times, last {}", fault.count, queue::FormatLocal(fault.last));
    text += fault.acknowledged ? ", acknowledged)\n" : ")\n";
  }
  if (!gpu.advice.empty()) text += fmt::format("GPU {}: {}\n", NameOf(gpu), gpu.advice);
  return text;
}

}  // namespace

std::string RenderHealth(const api::HealthReport& report, const TerminalStyle& style) {
  if (report.gpus.empty()) return "No GPUs.\n";
  Table table({{"GPU"}, {"NAME", Align::kLeft, 10}, {"HEALTH"}, {"ACTION"}, {"FAULTS", Align::kRight}});
  std::string faults;
  for (const auto& gpu : report.gpus) {
    // Without a driver, gpuman cannot tell whether the GPU is gone.
    const bool is_known = gpu.health.state != "unknown";
    table.Add({gpu.index  ? std::to_string(*gpu.index)
               : is_known ? "gone"
                          : "n/a",
               gpu.name.empty() ? gpu.uuid : gpu.name, Cell(gpu.health.state, HealthColor(gpu.health.state)),
               gpu.action, std::to_string(gpu.faults.size())});
    faults += Faults(gpu);
  }
  return table.Render(style) + (faults.empty() ? "" : "\n" + faults);
}

}  // namespace gpuman::cli
