#include "cli/mig_views.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cli/text.h"

namespace gpuman::cli {
namespace {

std::vector<std::string> NamesOf(const std::vector<api::MigProfileView>& profiles) {
  std::vector<std::string> names;
  names.reserve(profiles.size());
  for (const auto& profile : profiles) names.push_back(profile.name);
  return names;
}

std::string ModeOf(const api::MigGpu& gpu) {
  if (!gpu.supported) return "not supported";
  if (gpu.error) return "not known";
  if (gpu.enabled == gpu.pending) return gpu.enabled ? "on" : "off";
  return gpu.pending ? "on after a reset" : "off after a reset";
}

std::string ProcessList(const std::vector<api::MigProcessView>& processes) {
  std::vector<std::string> words;
  for (const auto& each : processes) {
    std::string about = each.gpuman ? "gpuman's own, for jobs that are suspended or take turns" : each.name;
    if (each.job && !each.gpuman)
      about += fmt::format("{}job {} '{}'", about.empty() ? "" : ", ", *each.job, each.tag.value_or(""));
    words.push_back(about.empty() ? std::to_string(each.pid)
                                  : fmt::format("{} ({})", each.pid, Printable(about)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string LayoutOf(const std::vector<std::string>& layout, bool enabled) {
  if (!enabled) return "MIG mode off";
  return layout.empty() ? "MIG mode on, no instances" : fmt::format("{}", fmt::join(layout, " "));
}

void AddInstances(const api::MigGpu& gpu, Table& table) {
  for (const auto& instance : gpu.instances) {
    const auto row = [&](const std::string& number, const std::string& compute, const std::string& uuid) {
      table.Add({number, instance.profile, std::to_string(instance.id),
                 fmt::format("{}:{}", instance.start, instance.size), base::FormatBytes(instance.memory),
                 compute, std::to_string(instance.processes.size()), uuid});
    };
    const auto index = std::to_string(gpu.index);
    if (instance.compute.empty()) row(index, "none", "");
    for (const auto& compute : instance.compute)
      row(compute.number.value_or(index), fmt::format("{}c", compute.slices), compute.uuid.value_or("n/a"));
  }
}

}  // namespace

std::string RenderMigProfiles(const api::MigReport& report, const TerminalStyle& style) {
  std::string text;
  std::vector<std::vector<std::string>> shown;
  for (const auto& gpu : report.gpus) {
    if (gpu.error) {
      text += fmt::format("GPU {}  {}: {}\n", gpu.index, gpu.name, *gpu.error);
      continue;
    }
    const auto names = NamesOf(gpu.profiles);
    if (std::find(shown.begin(), shown.end(), names) != shown.end()) continue;
    shown.push_back(names);
    std::vector<std::string> same;
    for (const auto& other : report.gpus)
      if (!other.error && NamesOf(other.profiles) == names) same.push_back(std::to_string(other.index));
    Table table({{"PROFILE"},
                 {"ID", Align::kRight},
                 {"MOST", Align::kRight},
                 {"MEMORY", Align::kRight},
                 {"SMS", Align::kRight},
                 {"SLICES", Align::kRight},
                 {"STARTS AT"}});
    for (const auto& each : gpu.profiles)
      table.Add({each.name, std::to_string(each.id), std::to_string(each.most),
                 base::FormatBytes(each.memory), std::to_string(each.multiprocessors),
                 fmt::format("{}/{}", each.slices, each.size),
                 fmt::format("{}", fmt::join(each.starts, " "))});
    text += fmt::format("{}GPU {}  {}\n{}", text.empty() ? "" : "\n", fmt::join(same, ", "), gpu.name,
                        table.Render(style));
  }
  return text.empty() ? "No GPUs.\n" : text;
}

std::string RenderMig(const api::MigReport& report, const TerminalStyle& style) {
  if (report.gpus.empty()) return "No GPUs.\n";
  Table gpus({{"GPU"}, {"NAME", Align::kLeft, 10}, {"MIG"}, {"INSTANCES"}});
  Table instances({{"GPU"},
                   {"PROFILE"},
                   {"ID", Align::kRight},
                   {"PLACE"},
                   {"MEMORY", Align::kRight},
                   {"COMPUTE"},
                   {"PROCESSES", Align::kRight},
                   {"UUID"}});
  std::string notes;
  for (const auto& gpu : report.gpus) {
    gpus.Add({std::to_string(gpu.index), gpu.name, ModeOf(gpu),
              gpu.layout.empty() ? "none" : fmt::format("{}", fmt::join(gpu.layout, " "))});
    AddInstances(gpu, instances);
    if (gpu.supported && gpu.error) notes += fmt::format("GPU {}: {}\n", gpu.index, *gpu.error);
    if (gpu.drifted && gpu.wanted)
      notes += fmt::format("GPU {}: it differs from the layout that was asked for: {}\n", gpu.index,
                           LayoutOf(*gpu.wanted, gpu.wanted_enabled.value_or(true)));
  }
  std::string text = gpus.Render(style);
  if (!instances.empty()) text += "\n" + instances.Render(style);
  return text + (notes.empty() ? "" : "\n" + notes);
}

std::string RenderMigChanges(const api::MigChanges& changes, bool is_plan) {
  std::string text;
  for (const auto& gpu : changes.gpus) {
    const bool nothing = gpu.steps.empty() && !gpu.error;
    text +=
        fmt::format("GPU {}: {}\n", gpu.index,
                    gpu.error ? "not done: " + *gpu.error
                    : nothing ? "nothing to change"
                    : is_plan ? (gpu.steps.size() == 1 ? "1 step" : fmt::format("{} steps", gpu.steps.size()))
                    : gpu.needs_reset ? *gpu.needs_reset
                    : gpu.done        ? "done"
                                      : "not begun");
    if (is_plan || gpu.error)
      for (std::size_t i = 0; i < gpu.steps.size(); ++i)
        text += fmt::format("  {}. {}\n", i + 1, gpu.steps[i].text);
    if (!gpu.in_the_way.empty()) text += fmt::format("  in the way: {}\n", ProcessList(gpu.in_the_way));
    if (gpu.needs_reset)
      text += fmt::format(
          "  reset it when nothing runs there: nvidia-smi --gpu-reset -i {}; the instances are made "
          "after that\n",
          gpu.index);
  }
  return text;
}

}  // namespace gpuman::cli
