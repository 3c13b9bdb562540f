// Prints an answer of the queue: as JSON, or as text for people.
#pragma once

#include <fmt/format.h>
#include <pwd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/queue_json.h"
#include "cli/session.h"

namespace gpuman::cli::queue {

// Notes a user name that this machine does not know: the name is mistyped, or a directory service does not
// answer now.
inline void NoteStranger(Session& session, const std::string& user) {
  if (::getpwnam(user.c_str()) == nullptr)
    session.Note(fmt::format("this machine knows no user {}", Printable(user)));
}

// `render` makes the text; it is called only without JSON.
template <typename T, typename Render>
base::Result<int> Show(Session& session, const T& value, Render render) {
  if (session.json)
    session.PrintJson(api::ToJson(value));
  else
    session.Print(render());
  return kExitDone;
}

}  // namespace gpuman::cli::queue
