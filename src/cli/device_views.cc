#include "cli/device_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/queue/when.h"
#include "cli/table.h"

namespace gpuman::cli {
namespace {

bool IsClocks(const api::DeviceSetting& setting) { return setting.name.ends_with("_clocks"); }

std::string Words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string NowText(const api::DeviceSetting& setting) {
  if (setting.supported == false && !setting.now) return "not supported";
  if (setting.pending)
    return fmt::format("{} ({} after a reset)", setting.now.value_or("n/a"), *setting.pending);
  if (!setting.now && IsClocks(setting)) return "n/a (not readable)";
  return setting.now.value_or("n/a");
}

std::string RangeText(const api::DeviceSetting& setting) {
  if (!setting.choices.empty()) return fmt::format("{}", fmt::join(setting.choices, ", "));
  if (setting.range)
    return fmt::format("{} to {} {}", setting.range->least, setting.range->most,
                       IsClocks(setting) ? "MHz" : "W");
  return setting.why.value_or("");
}

std::string Remarks(const api::DeviceView& device) {
  std::string text;
  for (const auto& profile : device.profiles) {
    text += fmt::format("  profile {} is in force", Printable(profile.name));
    if (profile.job) text += fmt::format(" for job {}", *profile.job);
    if (profile.until) text += fmt::format(" until {}", queue::FormatLocal(*profile.until));
    text += '\n';
  }
  for (const auto& setting : device.settings) {
    const auto name = Words(setting.name);
    if (setting.drift)
      text += fmt::format("  {} is not as it is wanted ({})\n", name,
                          queue::WithLocalTimes(setting.because.value_or("asked for")));
    if (setting.since)
      text += fmt::format("  {} in effect as asked for since {}\n", name, queue::FormatLocal(*setting.since));
    if (setting.pending) text += fmt::format("  {} takes effect with the next reset of the GPU\n", name);
  }
  return text;
}

}  // namespace

std::string RenderDevices(const api::DeviceList& list, const TerminalStyle& style) {
  std::string text;
  for (const auto& device : list.devices) {
    if (!text.empty()) text += '\n';
    text +=
        Paint(style, Color::kBold, fmt::format("GPU {}  {}", device.index, Printable(device.name))) + "\n";
    if (device.problem) {
      text += fmt::format("  {}\n", Printable(*device.problem));
      continue;
    }
    Table table({{"SETTING"}, {"NOW"}, {"WANTED"}, {"DEFAULT"}, {"POSSIBLE", Align::kLeft, 10}});
    for (const auto& setting : device.settings)
      table.Add({Words(setting.name), Cell(NowText(setting), setting.drift ? Color::kYellow : Color::kNone),
                 setting.wanted.value_or("-"), setting.usual.value_or("n/a"), RangeText(setting)});
    text += table.Render(style);
    if (device.graphics_mhz || device.memory_mhz) {
      const auto mhz = [](const std::optional<int>& value) { return value ? std::to_string(*value) : "n/a"; };
      text += fmt::format("  clocks at this moment: graphics {} MHz, memory {} MHz\n",
                          mhz(device.graphics_mhz), mhz(device.memory_mhz));
    }
    text += Remarks(device);
  }
  return text.empty() ? "No GPUs.\n" : text;
}

std::string RenderDeviceReport(const api::DeviceSettingsResult& report, const TerminalStyle& style) {
  std::string text;
  if (report.steps.empty()) text = "Everything is as it should be: nothing to change.\n";
  for (const auto& step : report.steps) {
    text += fmt::format("{}GPU {}: {} ", report.dry_run ? "would set " : "", step.index, Words(step.setting));
    text += step.from == step.to ? fmt::format("{}, set again\n", step.to)
                                 : fmt::format("{} -> {}\n", step.from.value_or("n/a"), step.to);
  }
  for (const auto& note : report.notes) text += Paint(style, Color::kDim, "note: " + Printable(note)) + "\n";
  return text;
}

std::string RenderDeviceProfiles(const api::DeviceProfileList& list, const TerminalStyle& style) {
  Table table({{"PROFILE"}, {"FROM"}, {"WHAT", Align::kLeft, 20}});
  for (const auto& profile : list.profiles)
    table.Add({profile.name, profile.built_in ? "built in" : "configuration", profile.summary});
  return table.Render(style);
}

std::string RenderDeviceProfile(const api::DeviceProfile& profile, const TerminalStyle& style) {
  Table table({{"SETTING"}, {"VALUE"}});
  for (const auto& [name, value] : profile.settings) table.Add({Words(name), value});
  return (profile.summary.empty() ? "" : Printable(profile.summary) + "\n") + table.Render(style);
}

}  // namespace gpuman::cli
