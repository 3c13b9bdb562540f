// mps start|stop|status|limit|terminate: several processes use a GPU at the same time, through NVIDIA's MPS.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "cli/commands.h"
#include "cli/gpu_option.h"
#include "cli/mps_views.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

// Asks by a route, and shows the report that is the answer.
template <typename Body>
base::Result<int> Report(CommandContext& session, const api::Route<Body, api::MpsReport>& route,
                         const std::type_identity_t<Body>& body = {}) {
  // A question is answered at once; an order waits for the control daemons, at most some seconds for a GPU.
  const auto options = std::is_same_v<Body, api::NoBody> ? api::HttpOptions{} : api::NoTimeout();
  GPUMAN_ASSIGN(const auto report, AskDaemon(session, route, {}, body, options));
  GPUMAN_ASSIGN(const int status, Show(session, report, RenderMps));
  for (const auto& note : report.notes) session.Note(note);
  return status;
}

// "all" is no name of a GPU: an order without names is for all GPUs.
void DropAll(std::vector<std::string>& gpus) {
  if (gpus == std::vector<std::string>{"all"}) gpus.clear();
}

Command Limiting(const char* name, const char* summary, const char* example, std::string_view usual,
                 const api::Route<api::MpsOrder, api::MpsReport>& route) {
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
      [order, route](CommandContext& session, const CommandLine&) {
        DropAll(order->gpus);
        return Report(session, route, *order);
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
          [order](CommandContext& session, const CommandLine&) {
            DropAll(order->gpus);
            return Report(session, api::routes::kStopMps, *order);
          }};
}

base::Result<int> Status(CommandContext& session, const CommandLine&) {
  return Report(session, api::routes::kMps);
}

base::Result<int> Terminate(CommandContext& session, const CommandLine& line) {
  auto pid = ParseInteger(line.words.front(), 0, std::numeric_limits<int>::max());
  if (!pid) return base::Fail(std::move(pid.error()).In("pid"));
  return Report(session, api::routes::kTerminateMps, {*pid});
}

}  // namespace

Command MpsCommand() {
  return {"mps",
          "Run processes of several jobs on a GPU at the same time, with NVIDIA MPS",
          "gpuman mps start --gpu 0",
          {},
          {},
          {},
          {Limiting("start",
                    "Start MPS on GPUs. A fault of one client also ends the work of the others, so use it "
                    "for programs that trust each other. Undone by: gpuman mps stop",
                    "gpuman mps start --gpu 0 --threads 50% --memory 8GiB", "all", api::routes::kStartMps),
           Stop(),
           {"status",
            "Show servers, their clients, and programs that use a GPU without its server",
            "gpuman mps status",
            {},
            {},
            Status},
           Limiting("limit", "Change the limits of clients that start from now on",
                    "gpuman mps limit --gpu 0 --threads 25%", "where it runs", api::routes::kLimitMps),
           {"terminate",
            "Disconnect one client: its work on the GPU is lost, the others continue",
            "gpuman mps terminate 4711",
            {{.value = "PID", .help = "Process id of the client"}},
            {},
            Terminate}}};
}

}  // namespace gpuman::cli
