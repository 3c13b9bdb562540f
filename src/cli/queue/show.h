// How an answer of the queue is printed: as JSON, or as people see it.
#pragma once

#include <fmt/format.h>
#include <pwd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/queue_json.h"
#include "cli/session.h"

namespace gpuman::cli::queue {

// A name that was mistyped is nobody's, and one that a directory knows may be unknown here for now.
inline void NoteStranger(Session& session, const std::string& user) {
  if (::getpwnam(user.c_str()) == nullptr)
    session.Note(fmt::format("this machine knows no user {}", Printable(user)));
}

// `render` makes the text; it is called where no JSON is asked for.
template <typename T, typename Render>
base::Result<int> Show(Session& session, const T& value, Render render) {
  if (session.json)
    session.PrintJson(api::ToJson(value));
  else
    session.Print(render());
  return kExitDone;
}

}  // namespace gpuman::cli::queue
