// status, proclist, gpu list, gpu show: the state of jobs, processes and GPUs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

base::Result<int> Status(Session& session, bool all) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::StatusView status, daemon.Status(all));
  if (session.json)
    session.PrintJson(api::ToJson(status));
  else
    session.Print(RenderStatus(status, session.style(), base::SystemClock().Wall()));
  return kExitDone;
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

base::Result<int> Proclist(Session& session) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::GpuList list, daemon.Gpus());
  if (session.json)
    session.PrintJson(ProcessesJson(list.gpus));
  else
    session.Print(RenderProcesses(list.gpus, session.style()));
  return kExitDone;
}

base::Result<int> ListGpus(Session& session) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::GpuList list, daemon.Gpus());
  if (session.json)
    session.PrintJson(api::ToJson(list));
  else
    session.Print(list.gpus.empty() ? "No GPUs.\n" : RenderGpus(list.gpus, session.style()));
  return kExitDone;
}

base::Result<int> ShowGpu(Session& session, const std::string& name) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::GpuView gpu, daemon.Gpu(name));
  if (session.json)
    session.PrintJson(api::ToJson(gpu));
  else
    session.Print(RenderGpu(gpu, session.style()));
  return kExitDone;
}

}  // namespace

void AddStatus(const Registry& registry) {
  const auto all = std::make_shared<bool>(false);  // shared by the parser's bindings and the action
  auto* status = registry.Add("status", "Show GPUs, their memory, and jobs", "gpuman status",
                              [all](Session& session) { return Status(session, *all); });
  status->add_flag("-a,--all", *all, "Also show ended jobs, of any age");
}

void AddProclist(const Registry& registry) {
  registry.Add("proclist", "Show all processes that use GPU memory, also those outside gpuman",
               "gpuman proclist", Proclist);
}

void AddGpu(const Registry& registry) {
  auto* gpu =
      registry.Add("gpu", "Show GPUs, and choose which of them the queue uses", "gpuman gpu show 0", nullptr);
  gpu->require_subcommand(1);
  registry.Add("list", "Show all GPUs", "gpuman gpu list", ListGpus, gpu);
  const auto name = std::make_shared<std::string>();  // shared by the parser's bindings and the action
  auto* show = registry.Add(
      "show", "Show one GPU, with its processes", "gpuman gpu show 0",
      [name](Session& session) { return ShowGpu(session, *name); }, gpu);
  show->add_option("gpu", *name, "Index, UUID, or the beginning of a UUID")->type_name(kGpuValue)->required();
  AddQueueOfGpus(registry, gpu);
  AddDrain(registry, gpu);
}

}  // namespace gpuman::cli
