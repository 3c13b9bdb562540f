// web: the page of this machine for one user's browser.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/host_name.h"
#include "cli/commands.h"
#include "cli/signal_watch.h"
#include "cli/take.h"
#include "web/server.h"

namespace gpuman::cli {
namespace {

// The command that brings the port to the machine where the browser is; empty: this session is no ssh.
std::string ForwardCommand(const base::EnvironmentLookup& environment, std::uint16_t port) {
  if (!environment("SSH_CONNECTION")) return {};
  const std::string host = base::HostName().value_or("THIS-MACHINE");
  const auto user = environment("USER");
  return fmt::format("ssh -N -L {0}:127.0.0.1:{0} {1}{2}", port, user ? *user + "@" : "", host);
}

base::Result<int> Web(Session& session, std::uint16_t port) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const std::string secret, web::NewSecret());
  GPUMAN_ASSIGN(auto server, web::Server::Open({daemon.socket(), {::geteuid(), secret}, port}));
  SignalWatch stop{SIGINT, SIGTERM, SIGHUP};
  // Behind "#" the secret stays in the browser: it is in no request, no log and no other page's referrer.
  const std::string link = fmt::format("http://127.0.0.1:{}/#secret={}", server.port(), secret);
  const std::string forward = ForwardCommand(session.environment(), server.port());
  if (session.json)
    session.PrintJson({{"url", link}, {"forward", forward.empty() ? api::Json() : api::Json(forward)}});
  else
    session.Print(link + "\n");
  session.Flush();
  if (!forward.empty()) session.Note(fmt::format("Where your browser is, type first: {}", forward));
  if (::geteuid() == 0)
    session.Note(
        "This page is root's: it answers to a browser of root's alone. Others run gpuman web as themselves.");
  session.Note("Who has this link may do what you may. Ctrl-C ends the page.");
  server.Serve(stop.fd());
  while (stop.Take() != 0) continue;  // else a signal comes when the watch ends
  return kExitDone;
}

}  // namespace

Command WebCommand() {
  const auto port = std::make_shared<std::uint16_t>(0);  // shared by the option and the action
  return {
      "web",
      "Show the machine, the queue and your jobs in the browser\n\n"
      "Prints a link and serves the page behind it until Ctrl-C, on a port of this machine that no other "
      "machine reaches. The page does what its buttons say as you, so keep the link to yourself. Over ssh "
      "it also prints the command that brings the port to your own machine.",
      "gpuman web",
      {},
      {{"--port", "PORT", "Serve on this port (default: one that is free)", take::Integer(*port, 1, 65535)}},
      [port](Session& session, const CommandLine&) { return Web(session, *port); }};
}

}  // namespace gpuman::cli
