// What every answer to the page has, and what a refusal looks like. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "web/request_check.h"

namespace gpuman::web {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Of every answer: what the browser may do with it.
const Headers& CommonHeaders();

// The body of a refusal, in JSON: {"error": {"message", "hint"}}. It has no code, by which the page can tell
// it from the daemon's own.
std::string BodyOf(const Refusal& refusal);

}  // namespace gpuman::web
