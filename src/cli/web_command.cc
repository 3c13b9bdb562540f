// web: the page of this machine for one user's browser.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "api/client.h"
#include "api/routes.h"
#include "base/host_name.h"
#include "base/parse_number.h"
#include "base/paths.h"
#include "cli/commands.h"
#include "cli/open_link.h"
#include "cli/show.h"
#include "cli/signal_watch.h"
#include "cli/take.h"
#include "web/secret.h"
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

void ShowLink(CommandContext& session, const std::string& link, std::uint16_t port) {
  const std::string forward = ForwardCommand(session.environment(), port);
  if (session.json)
    session.PrintJson({{"url", link}, {"forward", forward.empty() ? api::Json() : api::Json(forward)}});
  else
    session.Print(link + "\n");
  session.Flush();
  if (!forward.empty()) session.Note(fmt::format("Where your browser is, type first: {}", forward));
}

// The port that a link such as "http://127.0.0.1:8790/#secret=…" leads to.
std::uint16_t PortOf(std::string_view link) {
  const auto end = link.find("/#");
  auto digits = link.substr(0, end).substr(link.substr(0, end).rfind(':') + 1);
  return base::TakeNumber<std::uint16_t>(digits).value_or(0);
}

// The daemon's own page, which shows the machine to everybody.
base::Result<int> ShowPageForEverybody(CommandContext& session) {
  GPUMAN_ASSIGN(const auto page, AskDaemon(session, api::routes::kWeb));
  if (!page.url)
    return base::Fail(
        base::ErrorCode::kNotFound, "this machine serves no page for everybody",
        "an administrator sets web.listen in gpumand's configuration; gpuman web serves a page of "
        "your own");
  ShowLink(session, *page.url, PortOf(*page.url));
  session.Note(
      "Anybody who has this link sees what every user of this machine sees; the page changes nothing.");
  return kExitDone;
}

// Opens the user's browser, or says why not.
std::unique_ptr<OpenedLink> OpenBrowser(CommandContext& session, const std::string& link) {
  const auto no_browser = [&session](const std::string& why) {
    session.Note(fmt::format("No browser is opened: {}. Open the link yourself.", why));
  };
  const auto opener = BrowserOpener(session.environment());
  if (const auto why = WhyNoBrowser(session.environment(), opener)) {
    no_browser(*why);
    return nullptr;
  }
  auto opened = OpenedLink::Open(*opener, base::UserPaths().socket.parent_path(), link, no_browser);
  if (opened) return std::move(*opened);
  no_browser(opened.error().message);
  return nullptr;
}

base::Result<int> Web(CommandContext& session, std::uint16_t port, bool opens) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const std::string secret, web::NewSecret());
  GPUMAN_ASSIGN(auto server, web::Server::Open({daemon.socket(), {::geteuid(), secret}, port}));
  SignalWatch stop{SIGINT, SIGTERM, SIGHUP};
  const std::string link = web::LinkTo(fmt::format("127.0.0.1:{}", server.port()), secret);
  ShowLink(session, link, server.port());
  if (::geteuid() == 0)
    session.Note(
        "This page is root's: it answers to a browser of root's alone. Others run gpuman web as themselves.");
  session.Note("Anybody who has this link may do what you may. Ctrl-C ends the page.");
  // It notes on a thread of its own what fails later: this one prints nothing from here on.
  const auto opened = opens ? OpenBrowser(session, link) : nullptr;
  server.Serve(stop.fd());
  while (stop.Take() != 0) continue;  // else a signal comes when the watch ends
  return kExitDone;
}

}  // namespace

Command WebCommand() {
  struct WebOptions {
    std::uint16_t port = 0;
    bool everybody = false;
    bool opens = false;
  };
  const auto o = std::make_shared<WebOptions>();  // shared by the options and the action
  return {
      "web",
      "Show the machine, the queue and your jobs in the browser\n\n"
      "Prints a link and serves the page behind it until Ctrl-C, on a port of this machine that no other "
      "machine reaches. The page does what its buttons say as you, so keep the link to yourself. Over ssh "
      "it also prints the command that brings the port to your own machine.",
      "gpuman web",
      {},
      {{"--port", "PORT", "Serve on this port (default: one that is free)", take::Integer(o->port, 1, 65535)},
       {"--open", "", "Open the link in your browser as well, where this session has a display",
        take::Flag(o->opens)},
       {"--everybody", "", "Print the link of the page that gpumand serves to everybody, and end",
        take::Flag(o->everybody)}},
      [o](CommandContext& session, const CommandLine&) -> base::Result<int> {
        if (!o->everybody) return Web(session, o->port, o->opens);
        if (!o->opens) return ShowPageForEverybody(session);
        return base::Fail(base::ErrorCode::kInvalidArgument,
                          "--open is about a page of your own, and --everybody about another one",
                          "gpuman web --everybody prints its link");
      }};
}

}  // namespace gpuman::cli
