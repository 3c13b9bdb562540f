#include "mps/dialect_v2.h"

#include <fmt/format.h>

#include "mps/answers.h"

namespace gpuman::mps {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr int kDevice = 0;  // each daemon has one GPU
// With "-t 5" the daemon ends servers whose clients do not leave, after 5 seconds.
constexpr const char *kQuit = "quit", *kQuitNow = "quit -t 5";

}  // namespace

Result<std::string> DialectV2::Ask(const std::string& command) const {
  auto answer = program_.Run({}, command + "\n");
  if (!answer) return Fail(std::move(answer.error()).In(command));
  if (answer->status != 0)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}", command,
                            answer->output.empty() ? fmt::format("exit status {}", answer->status)
                                                   : FirstLine(answer->output)));
  return std::move(answer->output);
}

Result<> DialectV2::Tell(const std::string& command) const {
  GPUMAN_ASSIGN(const auto answer, Ask(command));
  auto done = ParseDone(answer);
  if (!done) return Fail(std::move(done.error()).In(command));
  return {};
}

Result<AppliedLimits> DialectV2::ApplyLimits(const WantedOnGpu& wanted) const {
  const auto& limits = wanted.limits;
  if (!limits.threads && !limits.memory) return AppliedLimits{};
  const auto set = [&](const std::string& infix, const std::string& server) -> Result<> {
    if (limits.threads)
      GPUMAN_TRY(Tell(
          fmt::format("set_{}active_thread_percentage {}{}", infix, server, ThreadsWord(*limits.threads))));
    if (limits.memory)
      GPUMAN_TRY(Tell(fmt::format("set_{}device_pinned_mem_limit {}{} {}", infix, server, kDevice,
                                  MemoryWord(*limits.memory))));
    return {};
  };
  GPUMAN_TRY(set("default_", ""));
  GPUMAN_ASSIGN(const auto list, Ask("get_server_list"));
  GPUMAN_ASSIGN(const auto servers, ParsePids(list));
  for (const pid_t server : servers) GPUMAN_TRY(set("", fmt::format("{} ", server)));
  return AppliedLimits{};
}

// A limit that an older control program does not know is absent.
Result<MpsServerStatus> DialectV2::ServerOf(pid_t pid) const {
  MpsServerStatus server{pid, table_.Owner(pid), {}, {}};
  GPUMAN_ASSIGN(const auto list, Ask(fmt::format("get_client_list {}", pid)));
  GPUMAN_ASSIGN(const auto clients, ParsePids(list));
  for (const pid_t client : clients) server.clients.push_back(ClientOf(client, table_));
  GPUMAN_ASSIGN(const auto threads, Ask(fmt::format("get_active_thread_percentage {}", pid)));
  if (const auto percent = ParsePercentage(threads)) server.limits.threads = *percent;
  GPUMAN_ASSIGN(const auto memory, Ask(fmt::format("get_device_pinned_mem_limit {} {}", pid, kDevice)));
  if (const auto limit = ParseMemoryLimit(memory)) server.limits.memory = *limit;
  return server;
}

Result<std::vector<MpsServerStatus>> DialectV2::Servers() const {
  GPUMAN_ASSIGN(const auto list, Ask("get_server_list"));
  GPUMAN_ASSIGN(const auto pids, ParsePids(list));
  std::vector<MpsServerStatus> servers;
  for (const pid_t pid : pids) {
    auto server = ServerOf(pid);
    // The server may have ended since it was listed.
    if (server)
      servers.push_back(std::move(*server));
    else if (table_.Find(pid))
      return Fail(std::move(server.error()));
  }
  return servers;
}

Result<> DialectV2::Terminate(pid_t server, pid_t client) const {
  return Tell(fmt::format("terminate_client {} {}", server, client));
}

Result<> DialectV2::Quit(bool force) const {
  GPUMAN_TRY(Ask(force ? kQuitNow : kQuit));
  return {};
}

}  // namespace gpuman::mps
