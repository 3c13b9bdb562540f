// What people see of the API's values: pure functions from a value to text, ended by a line end.
//
// `now` is the wall time for "how long": shown, never decided on. Unknown values are "n/a".
#pragma once

#include <optional>
#include <string>

#include "api/types.h"
#include "base/clock.h"
#include "cli/text.h"

namespace gpuman::cli {

// GPUs with a memory bar on terminals, then jobs, then why jobs ended or GPUs are not well.
std::string RenderStatus(const api::StatusView& status, const TerminalStyle& style, base::WallTime now);
std::string RenderGpus(const std::vector<api::GpuView>& gpus, const TerminalStyle& style);
std::string RenderJobs(const std::vector<api::JobView>& jobs, const std::vector<api::GpuView>& gpus,
                       const TerminalStyle& style, base::WallTime now);
// One GPU with everything known of it.
std::string RenderGpu(const api::GpuView& gpu, const TerminalStyle& style);
// Every process on every GPU.
std::string RenderProcesses(const std::vector<api::GpuView>& gpus, const TerminalStyle& style);
// One line an event, with no title line, so that a followed list goes on as it began.
std::string RenderEvent(const api::EventView& event, const TerminalStyle& style);

// "running", "killed (memory_limit)", "failed (exit 3)", "killed (signal 9)".
std::string StateText(const api::JobView& job);
// "job 3 'train' is running (pid 77), at most 8GiB on each GPU"
std::string JobSentence(const api::JobView& job);
// "n/a" for what is not known.
Color HealthColor(std::string_view state);
// Its command line, or its name where that is all that is known.
std::string ProcessCommand(const api::ProcessView& process);
// A command as a shell would take it. A script that was copied stands in it as a word of the keeper's.
std::string CommandText(const std::vector<std::string>& command);
std::string SizeText(const std::optional<base::Bytes>& size);

}  // namespace gpuman::cli
