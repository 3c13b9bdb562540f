// gflowd: starts and stops the user's own daemon, and sets how it allocates GPUs.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "api/ask.h"
#include "base/fd.h"
#include "cli/compat/gflow/commands.h"
#include "cli/queue/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/take.h"

namespace gpuman::cli::gflow {
namespace {

using base::ErrorCode;
using base::Result;

struct DaemonSettings {
  std::optional<std::string> gpus;
  std::string strategy;
};
using Action = Result<int> (*)(CommandContext& session, const DaemonSettings& settings);

// For people: programs get the state of the daemon at the end.
void Say(CommandContext& session, const std::string& text) {
  if (!session.json) session.Print(text);
}

// Prints the state of the daemon for programs. Without a version no daemon runs.
Result<int> PrintState(CommandContext& session, const std::optional<api::VersionView>& version) {
  if (!session.json) return kExitDone;
  api::Json state{
      {"running", version.has_value()}, {"pid", nullptr}, {"version", nullptr}, {"user_mode", nullptr}};
  if (version) {
    state["pid"] = version->pid;
    state["version"] = version->version;
    state["user_mode"] = version->user_mode;
  }
  session.PrintJson(state);
  return kExitDone;
}

Result<int> PrintState(CommandContext& session, const api::Client& daemon) {
  if (!session.json) return kExitDone;
  GPUMAN_ASSIGN(auto version, daemon.Version());
  return PrintState(session, std::optional(std::move(version)));
}

// Ends the user's own daemon and waits until its process is gone; false: the user may not end it. Jobs
// continue.
Result<bool> Stop(const api::Client& daemon) {
  GPUMAN_ASSIGN(const auto version, daemon.Version());
  if (!version.user_mode) return false;
  const base::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, version.pid, 0)));
  if (!process.ok()) return base::FailSystem(errno, "finding gpumand");
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0) != 0)
    return base::FailSystem(errno, "ending gpumand");
  pollfd ended{process.get(), POLLIN, 0};
  constexpr int kPatienceMillis = 30'000;
  if (::poll(&ended, 1, kPatienceMillis) != 1)
    return base::Fail(ErrorCode::kTimeout, fmt::format("gpumand (pid {}) does not end", version.pid));
  return true;
}

// The settings that the options ask for. kNotFound: the machine does not have one of the GPUs.
Result<api::QueueSettingsUpdate> UpdateOf(const api::Client& daemon, const DaemonSettings& s) {
  api::QueueSettingsUpdate update;
  if (s.gpus) {
    GPUMAN_ASSIGN(update.allowed, AllowedGpus(daemon, *s.gpus));
    update.clear_allowed = !update.allowed;
  }
  if (!s.strategy.empty()) update.choice = s.strategy;
  return update;
}

// Changes the settings and says so; does nothing where no option asks for a change.
Result<> Apply(CommandContext& session, const api::Client& daemon, const DaemonSettings& s,
               const api::QueueSettingsUpdate& update) {
  if (!update.allowed && !update.clear_allowed && !update.choice) return {};
  GPUMAN_ASSIGN(const auto settings, api::AskWithoutTimeout(daemon, api::routes::kSetQueue, {}, update));
  if (s.gpus)
    Say(session, settings.allowed ? fmt::format("Only GPU {} is used from now on.\n",
                                                queue::IndicesOf(*settings.allowed, queue::GpusOf(daemon)))
                                  : "All GPUs are used from now on.\n");
  if (!s.strategy.empty()) Say(session, fmt::format("Of several free GPUs it takes: {}.\n", settings.choice));
  return {};
}

// The daemon, which is started where it does not run, and the settings that the options ask for. Where they
// name a GPU that the machine does not have, nothing is done: a daemon that was started to look is stopped.
struct Ready {
  api::Client daemon;
  api::QueueSettingsUpdate update;
  bool ran = false;
};
Result<Ready> GetReady(CommandContext& session, const DaemonSettings& s, bool tells = true) {
  const bool ran = session.RunningDaemon().has_value();
  GPUMAN_ASSIGN(api::Client daemon, session.Daemon(tells));
  auto update = UpdateOf(daemon, s);
  if (!update) {
    if (!ran) {
      GPUMAN_TRY(Stop(daemon));
    }
    return base::Fail(std::move(update.error()));
  }
  return Ready{std::move(daemon), std::move(*update), ran};
}

Result<int> Up(CommandContext& session, const DaemonSettings& s) {
  GPUMAN_ASSIGN(const auto ready, GetReady(session, s));
  Say(session, ready.ran ? "gflowd is already running.\n" : "gflowd started.\n");
  GPUMAN_TRY(Apply(session, ready.daemon, s, ready.update));
  return PrintState(session, ready.daemon);
}

// Does not end the daemon of the machine, or a daemon whose socket the user named: no program would start
// that daemon again.
Result<int> Restart(CommandContext& session, const DaemonSettings& s) {
  const bool named = session.socket || session.environment()("GPUMAN_SOCKET");
  int before = 0;
  std::string kept;  // why the daemon was not restarted
  if (const auto running = session.RunningDaemon()) {
    GPUMAN_ASSIGN(const auto version, running->Version());
    before = version.pid;
    GPUMAN_TRY(UpdateOf(*running, s));  // before anything is done
    if (named) {
      kept =
          "its socket is named by GPUMAN_SOCKET or --socket, so it has to be restarted where it was started";
    } else {
      GPUMAN_ASSIGN(const bool stopped, Stop(*running));
      if (!stopped) kept = "it is the machine's daemon; to restart it: sudo systemctl restart gpumand";
    }
  }
  GPUMAN_ASSIGN(const auto ready, GetReady(session, s, /*tells=*/false));
  GPUMAN_ASSIGN(const auto now, ready.daemon.Version());
  if (!kept.empty())
    Say(session, fmt::format("gflowd (gpumand, pid {}) was not restarted: {}.\n", before, kept));
  else if (before == 0)
    Say(session, fmt::format("gflowd was not running; started gpumand (pid {}).\n", now.pid));
  else
    Say(session,
        fmt::format(
            "gflowd restarted: gpumand (pid {}) was stopped and started again (pid {}); jobs kept running.\n",
            before, now.pid));
  GPUMAN_TRY(Apply(session, ready.daemon, s, ready.update));
  GPUMAN_ASSIGN(const int shown, PrintState(session, now));
  return kept.empty() ? shown : kExitFailed;
}

Result<int> Down(CommandContext& session, const DaemonSettings&) {
  const auto daemon = session.RunningDaemon();
  if (!daemon) {
    Say(session, "gflowd is not running.\n");
    return PrintState(session, std::nullopt);
  }
  GPUMAN_ASSIGN(const bool stopped, Stop(*daemon));
  if (!stopped)
    return base::Fail(ErrorCode::kPermissionDenied, "this is the machine's daemon, which others use too",
                      "sudo systemctl stop gpumand");
  Say(session, "gflowd stopped; running jobs continue.\n");
  return PrintState(session, std::nullopt);
}

Result<int> Status(CommandContext& session, const DaemonSettings&) {
  const auto daemon = session.RunningDaemon();
  const auto version = daemon ? daemon->Version() : base::Fail(daemon.error());
  if (session.json) return PrintState(session, version ? std::optional(*version) : std::nullopt);
  if (!version) {
    session.Print("Status: Not running\n");
    return kExitDone;
  }
  session.Print(fmt::format("Status: Running\nHosting: {}\nVersion:   {}\nPID:       {}\n",
                            version->user_mode ? "gpumand --user" : "system service gpumand",
                            version->version, version->pid));
  if (const auto info = api::AskWithoutTimeout(*daemon, api::routes::kQueueInfo)) {
    const auto idle = std::count_if(info->gpus.begin(), info->gpus.end(),
                                    [](const auto& gpu) { return gpu.state == "idle"; });
    session.Print(fmt::format("GPUs:      {} total, {} available\n", info->gpus.size(), idle));
  }
  return kExitDone;
}

Result<int> Init(CommandContext& session, const DaemonSettings& s) {
  GPUMAN_ASSIGN(const auto ready, GetReady(session, s));
  GPUMAN_TRY(Apply(session, ready.daemon, s, ready.update));
  Say(session, "There is nothing to prepare. Queue a job with: gbatch --gpus 1 COMMAND\n");
  return PrintState(session, ready.daemon);
}

Result<int> RefuseService(CommandContext&, const DaemonSettings&) {
  return base::Fail(ErrorCode::kNotSupported, "the package has installed the service already",
                    "sudo systemctl enable --now gpumand; to undo it: sudo systemctl disable --now gpumand");
}

Options DaemonOptions(DaemonSettings& s) {
  return {{"--gpus", "GPUS", "Use only these GPUs: 0,2 or 0-3", take::Text(s.gpus)},
          {"--gpu-allocation-strategy", "sequential|random|topology", "Which of several free GPUs are used",
           take::Text(s.strategy)},
          {"--gpu-poll-interval-secs", "N", "Has no effect: the queue does not poll GPUs", take::Nothing()},
          {"-c,--config", "FILE", "", take::Nothing()},
          {"-v,--verbose", "", "", take::Nothing()},
          {"-q,--quiet", "", "", take::Nothing()}};
}

}  // namespace

Command Gflowd() {
  const auto s = std::make_shared<DaemonSettings>();  // shared by the options and the actions
  const auto command = [&](const std::string& name, const char* summary, Action act,
                           std::vector<std::string> aliases = {}) {
    return Command{name.substr(name.find(' ') + 1),
                   summary,
                   "gflowd " + name,
                   {},
                   DaemonOptions(*s),
                   [s, act](CommandContext& session, const CommandLine&) { return act(session, *s); },
                   {},
                   std::move(aliases)};
  };
  Command init = command("init", "Set --gpus and the strategy; nothing else has to be prepared", Init);
  for (const char* name : {"--yes", "--force", "--advanced"})
    init.options.push_back({name, "", "", take::Nothing()});
  for (const char* name : {"--host", "--port", "--timezone"})
    init.options.push_back({name, "VALUE", "", take::Nothing()});
  const Command service{
      "service",
      "Show how to start the daemon with the machine",
      "gflowd service install",
      {},
      {},
      {},
      {command("service install", "Show how to start the daemon with the machine", RefuseService),
       command("service uninstall", "Show how to no longer start the daemon with the machine",
               RefuseService)}};
  return {"gflowd",
          "Start and stop the daemon, and set which GPUs it uses",
          "",
          {},
          {},
          {},
          {command("start", "Start the daemon if it does not run", Up, {"up"}),
           command("stop", "Stop the daemon; running jobs continue", Down, {"down"}),
           command("restart", "Stop the daemon and start it again; running jobs continue", Restart),
           command("reload", "The same as restart", Restart),
           command("status", "Show whether the daemon runs", Status), std::move(init), service}};
}

}  // namespace gpuman::cli::gflow
