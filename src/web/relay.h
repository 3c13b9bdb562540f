// Passes one request of the page on to the daemon, and the daemon's answer back, piece by piece as it comes:
// events and logs that are followed go on until one of both sides closes.
#pragma once

#include <filesystem>

#include "web/connection.h"

namespace gpuman::web {

// False: the connection cannot be used any more.
bool Relay(const std::filesystem::path& daemon, const Request& request, Connection& connection);

// An error of this server itself: {"error": {"message", "hint"}}. It has no code, by which the page can tell
// it from the daemon's.
bool SendError(Connection& connection, int status, const std::string& message, const std::string& hint);

}  // namespace gpuman::web
