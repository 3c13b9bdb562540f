// Asks the daemon, and prints what it answers: as JSON, or as text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <type_traits>

#include "api/ask.h"
#include "cli/command_context.h"

namespace gpuman::cli {

// As api::Ask; waits as long as `options` say.
template <typename Body, typename Answer>
base::Result<Answer> AskDaemon(CommandContext& session, const api::Route<Body, Answer>& route,
                               const api::RouteArguments& target = {},
                               const std::type_identity_t<Body>& body = {},
                               const api::HttpOptions& options = {}) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  return api::Ask(daemon, route, target, body, options);
}

// `render` makes the text, of the value and a style or of nothing; it is called only without JSON.
template <typename T, typename Render>
base::Result<int> Show(CommandContext& session, const T& value, const Render& render) {
  if (session.json)
    session.PrintJson(api::ToJson(value));
  else if constexpr (std::is_invocable_v<const Render&, const T&, const TerminalStyle&>)
    session.Print(render(value, session.style()));
  else
    session.Print(render());
  return kExitDone;
}

}  // namespace gpuman::cli
