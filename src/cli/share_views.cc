#include "cli/share_views.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"

namespace gpuman::cli {
namespace {

// Work that leaves the GPU within this time is not worth a line.
constexpr base::Millis kLongUnit{20};

std::string Percent(double part) { return fmt::format("{:.1f}%", part * 100); }

std::string HowItStands(const api::ShareGpu& gpu) {
  // Turns by shares change many times a second.
  if (gpu.by_share) return "turns by shares of the time";
  if (gpu.handing_over) return "being handed over";
  if (gpu.exclusive) return "turns, also among jobs that fit together";
  return gpu.contended ? "turns" : "everybody runs";
}

std::string GpuText(const api::ShareGpu& gpu) {
  std::string text = fmt::format("GPU {}: {}; {} wanted of {}\n", gpu.number.value_or(gpu.uuid),
                                 HowItStands(gpu), base::FormatBytes(gpu.demand),
                                 gpu.capacity ? base::FormatBytes(*gpu.capacity) : std::string("n/a"));
  if ((!gpu.contended || gpu.by_share) && gpu.hand_overs == 0) return text;  // no memory has moved
  const auto left = gpu.quantum_left ? fmt::format(", {} left", base::FormatDuration(*gpu.quantum_left)) : "";
  const auto copied = gpu.copied_out < gpu.moved_out
                          ? fmt::format(", {} of it copied", base::FormatBytes(gpu.copied_out))
                          : std::string();
  return text + fmt::format("       quantum {}{}; {} hand-overs, {} out{}, {} back, {} of the time moving\n",
                            base::FormatDuration(gpu.quantum), left, gpu.hand_overs,
                            base::FormatBytes(gpu.moved_out), copied, base::FormatBytes(gpu.moved_in),
                            Percent(gpu.moving_share));
}

std::string PartOf(const std::optional<double>& part) { return part ? Percent(*part) : "n/a"; }

// The share that the job asked for, and the one that it has where it asked for none or got less.
std::string ShareOf(const api::ShareJob& job) {
  if (!job.compute) return PartOf(job.compute_part);
  const bool smaller = job.compute_part && *job.compute_part < job.compute->percent / 100.0 - 0.0005;
  return ToString(*job.compute) + (smaller ? fmt::format(" ({})", PartOf(job.compute_part)) : "");
}

// How long the job waited for its turns: the median, and the longest.
std::string WaitsOf(const api::ShareWaits& waits) {
  if (!waits.median || !waits.longest) return "n/a";
  return fmt::format("{} ({})", base::FormatDuration(*waits.median), base::FormatDuration(*waits.longest));
}

std::string WhatItDoes(const api::ShareJob& job) {
  if (job.resting && job.resting->units > 1)
    return fmt::format("closing ({} of {} at rest)", job.resting->at_rest, job.resting->units);
  if (job.suspended) return "suspended";
  if (job.waits_for && *job.waits_for == "share")
    return fmt::format("has used its share ({})", base::FormatDuration(job.waiting));
  if (job.waits_for && *job.waits_for == "latency")
    return fmt::format("held back ({})", base::FormatDuration(job.waiting));
  if (job.waits_for)
    return *job.waits_for == "too_large"
               ? "does not fit, not even alone"
               : fmt::format("waits for {} ({})", *job.waits_for, base::FormatDuration(job.waiting));
  return job.gate == "open" ? (job.activity == "idle" ? "idle" : "runs") : job.gate;
}

}  // namespace

std::string RenderShare(const api::ShareView& view, const TerminalStyle& style) {
  if (view.gpus.empty()) return "No job shares a GPU.\n";
  std::string text;
  for (const auto& gpu : view.gpus) {
    if (!text.empty()) text += '\n';
    text += GpuText(gpu);
    const bool managed = std::any_of(gpu.jobs.begin(), gpu.jobs.end(),
                                     [](const auto& job) { return job.memory.managed.count > 0; });
    std::vector<Column> columns{{"ID", Align::kRight},
                                {"TAG"},
                                {"STATE"},
                                {"ON GPU", Align::kRight},
                                {"AWAY", Align::kRight},
                                {"WANTS", Align::kRight},
                                {"WEIGHT", Align::kRight},
                                {"TURNS", Align::kRight},
                                {"WAITS", Align::kRight}};
    const bool asked = gpu.by_share || std::any_of(gpu.jobs.begin(), gpu.jobs.end(),
                                                   [](const auto& job) { return job.compute.has_value(); });
    if (asked) columns.insert(columns.begin() + 7, {{"SHARE", Align::kRight}, {"HAD", Align::kRight}});
    if (managed) columns.insert(columns.begin() + 5, {"MANAGED", Align::kRight});
    Table table(std::move(columns));
    for (const auto& job : gpu.jobs) {
      std::vector<Cell> cells{std::to_string(job.id),
                              job.tag,
                              Cell(WhatItDoes(job), job.in_run_set ? Color::kGreen : Color::kNone),
                              base::FormatBytes(job.memory.resident + job.memory.pinned),
                              base::FormatBytes(job.memory.away),
                              base::FormatBytes(job.memory.wanted),
                              fmt::format("{}", job.weight),
                              base::FormatDuration(job.had_turn),
                              WaitsOf(job.waits)};
      if (asked) cells.insert(cells.begin() + 7, {ShareOf(job), PartOf(job.compute_had)});
      if (managed) cells.insert(cells.begin() + 5, base::FormatBytes(job.memory.managed));
      table.Add(std::move(cells));
    }
    text += table.Render(style);
    for (const auto& job : gpu.jobs)
      if (job.interactive)
        text += fmt::format("{}: interactive ({})\n", Printable(job.tag),
                            *job.interactive == "asked" ? "--interactive" : "by its rhythm");
    for (const auto& job : gpu.jobs)
      if (job.latency) text += fmt::format("{}: its work goes first (--latency)\n", Printable(job.tag));
    for (const auto& job : gpu.jobs)
      if (job.longest_unit && *job.longest_unit >= kLongUnit)
        text += fmt::format(
            "{}: its work stayed on the GPU for {} after its turn; a kernel or a graph is not cut\n",
            Printable(job.tag), base::FormatDuration(*job.longest_unit));
    for (const auto& job : gpu.jobs)
      if (job.detail) text += fmt::format("{}: {}\n", Printable(job.tag), Printable(*job.detail));
  }
  return text;
}

std::string RenderShareSettings(const api::ShareSettings& s) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<16}{}\n", name, Printable(value));
  };
  line("policy", s.policy);
  line("quantum",
       fmt::format("{} to {}", base::FormatDuration(s.quantum_min), base::FormatDuration(s.quantum_max)));
  line("overhead", Percent(s.overhead));
  line("idle", base::FormatDuration(s.idle));
  line("interactive", fmt::format("after {}", base::FormatDuration(s.interactive_wait)));
  line("capacity", s.capacity.value_or("what is free"));
  line("compute", s.compute);
  line("memory", s.memory);
  line("managed turns", s.managed_turns ? "on" : "off");
  line("pause", s.pause ? "on" : "off");
  line("on no yield", fmt::format("{} after {}", s.on_no_yield, base::FormatDuration(s.yield_limit)));
  line("step", s.step ? "on" : "off");
  line("on no answer",
       fmt::format("{} after {}, between users", s.on_no_answer, base::FormatDuration(s.answer_limit)));
  line("unchanged", s.unchanged);
  return text;
}

}  // namespace gpuman::cli
