// status, proclist, gpu list, gpu show: the state of jobs, processes and GPUs.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/gpu_option.h"
#include "cli/queue/commands.h"
#include "cli/show.h"
#include "cli/take.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

base::Result<int> Status(CommandContext& session, bool all) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::StatusView status, daemon.Status(all));
  return Show(session, status,
              [&] { return RenderStatus(status, session.style(), base::SystemClock().Wall()); });
}

api::Json ProcessesJson(const std::vector<api::GpuView>& gpus) {
  api::Json list = api::Json::array();
  for (const auto& gpu : gpus) {
    for (const auto& process : gpu.processes) {
      api::Json entry = api::Json::object();
      entry["gpu"] = gpu.index ? api::Json(*gpu.index) : api::Json(nullptr);
      entry["uuid"] = gpu.uuid;
      entry.update(api::ToJson(process));
      entry["number"] = api::NumberOf(gpu);
      list.push_back(std::move(entry));
    }
  }
  return {{"processes", std::move(list)}};
}

base::Result<int> Proclist(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::GpuList list, daemon.Gpus());
  if (session.json)
    session.PrintJson(ProcessesJson(list.gpus));
  else
    session.Print(RenderProcesses(list.gpus, session.style()));
  return kExitDone;
}

base::Result<int> ListGpus(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::GpuList list, daemon.Gpus());
  return Show(session, list, [&]() -> std::string {
    return list.gpus.empty() ? "No GPUs.\n" : RenderGpus(list.gpus, session.style());
  });
}

base::Result<int> ShowGpu(CommandContext& session, const CommandLine& line) {
  GPUMAN_ASSIGN(const auto gpu, AskDaemon(session, api::routes::kGpu, {{line.words.front()}}));
  return Show(session, gpu, RenderGpu);
}

}  // namespace

Command StatusCommand() {
  const auto all = std::make_shared<bool>(false);  // shared by the options and the action
  return {"status",
          "Show GPUs, their memory, and jobs",
          "gpuman status",
          {},
          {{"-a,--all", "", "Also show ended jobs, of any age", take::Flag(*all)}},
          [all](CommandContext& session, const CommandLine&) { return Status(session, *all); }};
}

Command ProclistCommand() {
  return {"proclist",
          "Show all processes that use GPU memory, also those outside gpuman",
          "gpuman proclist",
          {},
          {},
          Proclist};
}

Command GpuCommand() {
  Command gpu{
      "gpu",
      "Show GPUs, and choose which of them the queue uses",
      "gpuman gpu show 0",
      {},
      {},
      nullptr,
      {{"list", "Show all GPUs", "gpuman gpu list", {}, {}, ListGpus},
       {"show", "Show one GPU, with its processes", "gpuman gpu show 0", {GpuArgument()}, {}, ShowGpu}}};
  for (const auto& more : {queue::GpuCommands(), DrainCommands()})
    gpu.commands.insert(gpu.commands.end(), more.begin(), more.end());
  return gpu;
}

}  // namespace gpuman::cli
