// Renders the API's values for people. Pure functions; each text ends with a line end.
//
// `now` is the wall time from which durations are shown; no decision depends on it. Unknown values are "n/a".
#pragma once

#include <optional>
#include <string>

#include "api/types.h"
#include "base/clock.h"
#include "cli/text.h"

namespace gpuman::cli {

// GPUs, with a memory bar on terminals, then jobs, then why jobs ended and faults of GPUs.
std::string RenderStatus(const api::StatusView& status, const TerminalStyle& style, base::WallTime now);
std::string RenderGpus(const std::vector<api::GpuView>& gpus, const TerminalStyle& style);
std::string RenderJobs(const std::vector<api::JobView>& jobs, const std::vector<api::GpuView>& gpus,
                       const TerminalStyle& style, base::WallTime now);
// All that is known of one GPU.
std::string RenderGpu(const api::GpuView& gpu, const TerminalStyle& style);
// Every process on every GPU.
std::string RenderProcesses(const std::vector<api::GpuView>& gpus, const TerminalStyle& style);
// One line an event, without a title line, so that a followed list continues in the same form.
std::string RenderEvent(const api::EventView& event, const TerminalStyle& style);

// "running", "killed (memory_limit)", "failed (exit 3)", "killed (signal 9)".
std::string StateText(const api::JobView& job);
// "job 3 'train' is running (pid 77), at most 8GiB on each GPU"
std::string JobSentence(const api::JobView& job);
Color StateColor(spec::JobState state);
// For the health of a GPU.
Color HealthColor(std::string_view state);
// The command line, or the name where only that is known.
std::string ProcessCommand(const api::ProcessView& process);
// The command as a shell would read it. Shows "(its script)" for the word "{script}", which stands for a
// copied script.
std::string CommandText(const std::vector<std::string>& command);
std::string SizeText(const std::optional<base::Bytes>& size);

}  // namespace gpuman::cli
