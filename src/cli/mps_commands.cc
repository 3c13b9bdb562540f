// mps start|stop|status|limit|terminate: several processes use a GPU at the same time, through NVIDIA's MPS.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "api/json.h"
#include "cli/command.h"
#include "cli/mps_views.h"
#include "cli/percentage.h"
#include "cli/run_request.h"

namespace gpuman::cli {
namespace {

struct MpsOptions {
  std::vector<std::string> gpus;
  std::optional<std::string> threads, memory;
  bool force = false;
  int pid = 0;
};

using MpsCall = base::Result<api::MpsReport> (*)(const api::Client& daemon, const MpsOptions& options);

std::vector<std::string> GpusOf(const MpsOptions& o) {
  return o.gpus == std::vector<std::string>{"all"} ? std::vector<std::string>{} : o.gpus;
}

base::Result<api::MpsOrder> OrderOf(const MpsOptions& o) {
  api::MpsOrder order{GpusOf(o), {}, {}};
  GPUMAN_ASSIGN(order.memory, SizeOption("--memory", o.memory));
  if (!o.threads) return order;
  auto threads = ParsePercentage(*o.threads);
  if (!threads) return base::Fail(std::move(threads.error()).In("--threads"));
  order.threads = *threads;
  return order;
}

base::Result<int> Do(Session& session, const MpsOptions& o, MpsCall ask) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, ask(daemon, o));
  if (session.json) {
    session.PrintJson(api::ToJson(report));
    return kExitDone;
  }
  session.Print(RenderMps(report, session.style()));
  for (const auto& note : report.notes) session.Note(note);
  return kExitDone;
}

void AddGpuOption(CLI::App* command, MpsOptions& o, std::string_view usual) {
  command
      ->add_option("-g,--gpu", o.gpus,
                   fmt::format("Only this GPU, by index or UUID; repeat for more (default: {})", usual))
      ->type_name(kGpuValue)
      ->delimiter(',')
      ->expected(1)
      ->take_all();
}

void AddLimits(CLI::App* command, MpsOptions& o) {
  command->add_option("--threads", o.threads, "Part of the GPU's threads that each client may use: 50%")
      ->type_name("PERCENT");
  command->add_option("-m,--memory", o.memory, "Memory that each client may use: 8GiB, 25%")
      ->type_name(kSizeValue);
}

base::Result<api::MpsReport> Start(const api::Client& daemon, const MpsOptions& o) {
  GPUMAN_ASSIGN(const auto order, OrderOf(o));
  return daemon.StartMps(order);
}
base::Result<api::MpsReport> Limit(const api::Client& daemon, const MpsOptions& o) {
  GPUMAN_ASSIGN(const auto order, OrderOf(o));
  return daemon.LimitMps(order);
}
base::Result<api::MpsReport> Stop(const api::Client& daemon, const MpsOptions& o) {
  return daemon.StopMps({GpusOf(o), o.force});
}
base::Result<api::MpsReport> Show(const api::Client& daemon, const MpsOptions&) { return daemon.Mps(); }
base::Result<api::MpsReport> Terminate(const api::Client& daemon, const MpsOptions& o) {
  return daemon.TerminateMps({o.pid});
}

}  // namespace

void AddMps(const Registry& registry) {
  const auto o = std::make_shared<MpsOptions>();  // shared by the parser's bindings and the actions
  auto* mps =
      registry.Add("mps", "Run processes of several jobs on a GPU at the same time, with NVIDIA MPS", "", {});
  mps->require_subcommand(1);
  const auto add = [&](const char* name, const char* summary, const char* example, MpsCall ask) {
    return registry.Add(
        name, summary, example, [o, ask](Session& session) { return Do(session, *o, ask); }, mps);
  };
  auto* start = add("start",
                    "Start MPS on GPUs. A fault of one client also ends the work of the others, so use it "
                    "for programs that trust each other. Undone by: gpuman mps stop",
                    "gpuman mps start --gpu 0 --threads 50% --memory 8GiB", &Start);
  AddGpuOption(start, *o, "all");
  AddLimits(start, *o);
  auto* stop =
      add("stop", "Stop MPS on GPUs; refused while it has clients", "gpuman mps stop --gpu 0", &Stop);
  AddGpuOption(stop, *o, "where it runs");
  stop->add_flag("--force", o->force, "Stop it although it has clients; their work on the GPU is lost");
  add("status", "Show servers, their clients, and programs that use a GPU without its server",
      "gpuman mps status", &Show);
  auto* limit = add("limit", "Change the limits of clients that start from now on",
                    "gpuman mps limit --gpu 0 --threads 25%", &Limit);
  AddGpuOption(limit, *o, "where it runs");
  AddLimits(limit, *o);
  auto* terminate =
      add("terminate", "Disconnect one client: its work on the GPU is lost, the others continue",
          "gpuman mps terminate 4711", &Terminate);
  terminate->add_option("pid", o->pid, "Process id of the client")->type_name("PID")->required();
}

}  // namespace gpuman::cli
