// mps start|stop|status|limit|terminate: several processes use a GPU at the same time, through NVIDIA's MPS.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/json.h"
#include "cli/commands.h"
#include "cli/gpu_option.h"
#include "cli/mps_views.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

using Answer = base::Result<api::MpsReport>;
using SendOrder = Answer (api::Client::*)(const api::MpsOrder& order) const;

// `ask` returns the Answer of a daemon.
template <typename Ask>
base::Result<int> Show(Session& session, const Ask& ask) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, ask(daemon));
  if (session.json) {
    session.PrintJson(api::ToJson(report));
    return kExitDone;
  }
  session.Print(RenderMps(report, session.style()));
  for (const auto& note : report.notes) session.Note(note);
  return kExitDone;
}

// "all" is no name of a GPU: an order without names is for all GPUs.
void DropAll(std::vector<std::string>& gpus) {
  if (gpus == std::vector<std::string>{"all"}) gpus.clear();
}

Command Limiting(const char* name, const char* summary, const char* example, std::string_view usual,
                 SendOrder send) {
  const auto order = std::make_shared<api::MpsOrder>();  // shared by the options and the action
  return {
      name,
      summary,
      example,
      {},
      {GpuOption(order->gpus, usual),
       {"--threads", "PERCENT", "Part of the GPU's threads that each client may use: 50%",
        take::Into(order->threads, ParsePercentage)},
       {"-m,--memory", kSizeValue, "Memory that each client may use: 8GiB, 25%", take::Size(order->memory)}},
      [order, send](Session& session, const CommandLine&) {
        DropAll(order->gpus);
        return Show(session, [&](const api::Client& daemon) { return (daemon.*send)(*order); });
      }};
}

Command Stop() {
  const auto order = std::make_shared<api::MpsStop>();  // shared by the options and the action
  return {"stop",
          "Stop MPS on GPUs; refused while it has clients",
          "gpuman mps stop --gpu 0",
          {},
          {GpuOption(order->gpus, "where it runs"),
           {"--force", "", "Stop it although it has clients; their work on the GPU is lost",
            take::Flag(order->force)}},
          [order](Session& session, const CommandLine&) {
            DropAll(order->gpus);
            return Show(session, [&](const api::Client& daemon) { return daemon.StopMps(*order); });
          }};
}

base::Result<int> Status(Session& session, const CommandLine&) {
  return Show(session, [](const api::Client& daemon) { return daemon.Mps(); });
}

base::Result<int> Terminate(Session& session, const CommandLine& line) {
  auto pid = ParseInteger(line.words.front(), 0, std::numeric_limits<int>::max());
  if (!pid) return base::Fail(std::move(pid.error()).In("pid"));
  return Show(session, [&](const api::Client& daemon) { return daemon.TerminateMps({*pid}); });
}

}  // namespace

Command MpsCommand() {
  return {"mps",
          "Run processes of several jobs on a GPU at the same time, with NVIDIA MPS",
          "",
          {},
          {},
          {},
          {Limiting("start",
                    "Start MPS on GPUs. A fault of one client also ends the work of the others, so use it "
                    "for programs that trust each other. Undone by: gpuman mps stop",
                    "gpuman mps start --gpu 0 --threads 50% --memory 8GiB", "all", &api::Client::StartMps),
           Stop(),
           {"status",
            "Show servers, their clients, and programs that use a GPU without its server",
            "gpuman mps status",
            {},
            {},
            Status},
           Limiting("limit", "Change the limits of clients that start from now on",
                    "gpuman mps limit --gpu 0 --threads 25%", "where it runs", &api::Client::LimitMps),
           {"terminate",
            "Disconnect one client: its work on the GPU is lost, the others continue",
            "gpuman mps terminate 4711",
            {{.value = "PID", .help = "Process id of the client"}},
            {},
            Terminate}}};
}

}  // namespace gpuman::cli
