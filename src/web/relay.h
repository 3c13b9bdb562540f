// Passes one request of the page on to the daemon, and the daemon's answer back, piece by piece as it comes:
// events and logs that are followed go on until one of both sides closes.
#pragma once

#include <filesystem>

#include "web/connection.h"

namespace gpuman::web {

// Headers of every answer: what the browser may do with it.
const Headers& CommonHeaders();

// False: the connection cannot be used any more.
bool Relay(const std::filesystem::path& daemon, const Request& request, Connection& connection);

// An error as the daemon says it: {"error": {"message", "hint"}}.
bool SendError(Connection& connection, int status, const std::string& message, const std::string& hint);

}  // namespace gpuman::web
