#include "cli/mps_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "cli/table.h"

namespace gpuman::cli {
namespace {

std::string NameOf(const api::MpsGpu& gpu) { return gpu.index ? std::to_string(*gpu.index) : "gone"; }

Color ColorOf(const std::string& state) {
  if (state == "running") return Color::kGreen;
  return state == "dead" || state == "foreign" ? Color::kRed : Color::kNone;
}

std::string Threads(const std::optional<double>& percent) {
  return percent ? fmt::format("{}%", *percent) : "-";
}
std::string Memory(const std::optional<base::Bytes>& size) { return size ? base::FormatBytes(*size) : "-"; }
std::string Number(const std::optional<int>& number) { return number ? std::to_string(*number) : "-"; }
std::string JobOf(const api::MpsProcess& process) {
  return process.job ? fmt::format("{} {}", *process.job, process.tag.value_or("")) : "-";
}

std::size_t CountClients(const api::MpsGpu& gpu) {
  std::size_t count = 0;
  for (const auto& server : gpu.servers) count += server.clients.size();
  return count;
}

bool HasNamespaces(const api::MpsReport& report) {
  for (const auto& gpu : report.gpus)
    for (const auto& server : gpu.servers)
      if (!server.namespaces.empty()) return true;
  return false;
}

// A table of each server's user and clients, with what each client may use. Servers by protocol 3 have a name
// and namespaces.
std::string Clients(const api::MpsReport& report, const TerminalStyle& style) {
  const bool has_namespaces = HasNamespaces(report);
  std::vector<Column> columns{{"GPU"}, {"SERVER", Align::kRight}};
  if (has_namespaces) columns.insert(columns.end(), {{"NAME"}, {"NAMESPACE"}});
  columns.insert(columns.end(), {{"CLIENT", Align::kRight},
                                 {"USER"},
                                 {has_namespaces ? "PROGRAM" : "NAME", Align::kLeft, 8},
                                 {"JOB", Align::kLeft, 8},
                                 {"THREADS", Align::kRight},
                                 {"MEMORY", Align::kRight}});
  Table table(std::move(columns));
  const auto add = [&](const api::MpsGpu& gpu, const api::MpsServer& server, const std::string& name_space,
                       std::vector<Cell> rest) {
    std::vector<Cell> row{NameOf(gpu), std::to_string(server.pid)};
    if (has_namespaces) row.insert(row.end(), {server.name.value_or("n/a"), name_space});
    row.insert(row.end(), rest.begin(), rest.end());
    table.Add(std::move(row));
  };
  for (const auto& gpu : report.gpus)
    for (const auto& server : gpu.servers) {
      if (server.clients.empty())
        add(gpu, server, "-",
            {"none", server.user.value_or("n/a"), "-", "-", Threads(server.threads), Memory(server.memory)});
      for (const auto& client : server.clients)
        add(gpu, server, client.name_space.value_or("n/a"),
            {std::to_string(client.pid), client.user.value_or("n/a"), client.name.value_or("n/a"),
             JobOf(client), client.limits_known ? Threads(client.threads) : "n/a",
             client.limits_known ? Memory(client.memory) : "n/a"});
    }
  return table.empty() ? "" : "\n" + table.Render(style);
}

std::string Remarks(const api::MpsGpu& gpu) {
  std::string text;
  for (const auto& process : gpu.outside)
    text += fmt::format(
        "GPU {}: pid {} ({}, user {}) is not a client of the server, so the server's limits do not apply to "
        "it\n",
        NameOf(gpu), process.pid, Printable(process.name.value_or("n/a")), process.user.value_or("n/a"));
  if (!gpu.waiting.empty())
    text += fmt::format("GPU {}: job {} waits until the clients of the other user have ended\n", NameOf(gpu),
                        fmt::join(gpu.waiting, ", "));
  if (gpu.problem) text += fmt::format("GPU {}: {}\n", NameOf(gpu), Printable(*gpu.problem));
  return text;
}

}  // namespace

std::string RenderMps(const api::MpsReport& report, const TerminalStyle& style) {
  if (report.gpus.empty()) return "No GPUs.\n";
  Table table({{"GPU"},
               {"NAME", Align::kLeft, 10},
               {"MPS"},
               {"PROTOCOL", Align::kRight},
               {"PID", Align::kRight},
               {"THREADS", Align::kRight},
               {"MEMORY", Align::kRight},
               {"CLIENTS", Align::kRight}});
  std::string remarks;
  for (const auto& gpu : report.gpus) {
    table.Add({NameOf(gpu), gpu.name.empty() ? gpu.uuid : gpu.name, Cell(gpu.state, ColorOf(gpu.state)),
               Number(gpu.protocol), Number(gpu.pid), Threads(gpu.threads), Memory(gpu.memory),
               std::to_string(CountClients(gpu))});
    remarks += Remarks(gpu);
  }
  if (!report.program) remarks += "nvidia-cuda-mps-control is not installed: MPS cannot be started here\n";
  return table.Render(style) + Clients(report, style) + (remarks.empty() ? "" : "\n" + remarks);
}

}  // namespace gpuman::cli
