// How an answer of the queue is printed: as JSON, or as people see it.
#pragma once

#include <nlohmann/json.hpp>

#include "api/queue_json.h"
#include "cli/session.h"

namespace gpuman::cli::queue {

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
