// why: what became of a job, and who held its memory.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/allocation_views.h"
#include "cli/commands.h"
#include "cli/queue/named_jobs.h"
#include "cli/show.h"
#include "cli/story_views.h"
#include "cli/take.h"
#include "trace/pprof.h"
#include "trace/symbols.h"

namespace gpuman::cli {
namespace {

struct WhySettings {
  bool allocations = false;
  std::string output = "text";
};

base::Result<JobAllocationTraces> ReadTracesOf(CommandContext& session, const std::string& name) {
  GPUMAN_ASSIGN(const auto view, AskDaemon(session, api::routes::kJob, {{name}}));
  if (!view.trace_path && view.started_at)
    return base::Fail(
        base::ErrorCode::kNotFound,
        fmt::format("job {} '{}' was started without --trace-allocations", view.id, view.tag),
        view.queue ? fmt::format("`gpuman job redo {} --trace-allocations` runs it again with it", view.id)
                   : "`gpuman run --trace-allocations …` starts it with it");
  if (!view.trace_path)
    return base::Fail(base::ErrorCode::kConflict,
                      fmt::format("job {} '{}' has not started: nothing was allocated", view.id, view.tag));
  auto traces = trace::ReadTraces(*view.trace_path);
  if (!traces && traces.error().code == base::ErrorCode::kPermissionDenied)
    traces.error().hint = fmt::format("its user ({}) and root may read them", view.user);
  if (!traces) return base::Fail(std::move(traces.error()));
  JobAllocationTraces job{view.id, view.tag, std::move(*traces), {}};
  job.gpus = trace::Replay(job.traces.processes);
  return job;
}

GpuName NamesOf(const api::Client& daemon) {
  const auto list = daemon.Gpus();
  return [gpus = list ? list->gpus : std::vector<api::GpuView>{}](const std::string& uuid) {
    for (const auto& gpu : gpus)
      if (gpu.uuid == uuid) return "GPU " + api::NumberOf(gpu);
    return uuid;
  };
}

base::Result<int> WhyAllocations(CommandContext& session, const std::string& name,
                                 const WhySettings& settings) {
  if (settings.output == "pprof" && ::isatty(STDOUT_FILENO) == 1)
    return base::Fail(base::ErrorCode::kInvalidArgument, "a profile is no text for a terminal",
                      "write it into a file: gpuman why JOB --allocations -o pprof > job.pb");
  GPUMAN_ASSIGN(const auto job, ReadTracesOf(session, name));
  trace::Symbols symbols;
  const trace::NameFrame name_frame = [&symbols](const trace::MappedBinary& module, std::uint64_t address,
                                                 trace::Frame& frame) {
    symbols.Name(module, address, frame);
  };
  if (settings.output == "pprof") {
    session.PrintOutput(trace::WritePprof(job.traces.processes, job.gpus, name_frame));
  } else if (session.json || settings.output == "json") {
    session.PrintJson(AllocationsJson(job, name_frame));
  } else {
    GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
    session.Print(RenderAllocations(job, name_frame, NamesOf(daemon), session.style()));
  }
  return kExitDone;
}

base::Result<int> Why(CommandContext& session, const CommandLine& line, const WhySettings& settings) {
  if (!settings.allocations && settings.output == "pprof")
    return base::Fail(base::ErrorCode::kInvalidArgument, "-o pprof: only allocations make a profile",
                      "add --allocations");
  GPUMAN_ASSIGN(const auto jobs, queue::JobsNamed(session, line.words));
  if (settings.output == "pprof" && jobs.size() != 1)
    return base::Fail(base::ErrorCode::kInvalidArgument, "-o pprof: a profile is of one job", "name one");
  if (settings.output == "json") session.json = true;
  bool first = true;
  return queue::ForEachJob(session, jobs, [&](const std::string& job) -> base::Result<int> {
    if (!std::exchange(first, false) && !session.json) session.Print("\n");
    if (settings.allocations) return WhyAllocations(session, job, settings);
    GPUMAN_ASSIGN(const auto story, AskDaemon(session, api::routes::kWhyJob, {{job}}));
    return Show(session, story, RenderStory);
  });
}

}  // namespace

Command WhyCommand() {
  const auto s = std::make_shared<WhySettings>();  // shared by the options and the action
  return {"why",
          "Show why a job waits, runs or ended, and what to do",
          "gpuman why train",
          {JobArgument()},
          {{"--allocations", "",
            "Show the places in its program that held most GPU memory, of a job with --trace-allocations",
            take::Flag(s->allocations)},
           {"-o,--output", "text|json|pprof", "Format of the output; pprof: a profile, with --allocations",
            take::Text(s->output)}},
          [s](CommandContext& session, const CommandLine& line) { return Why(session, line, *s); }};
}

}  // namespace gpuman::cli
