// Passes one request of the page on to the daemon, and the daemon's answer back, piece by piece as it comes:
// events and logs that are followed go on until one of both sides closes.
#pragma once

#include <filesystem>

#include "web/connection.h"
#include "web/request_check.h"

namespace gpuman::web {

// False: the connection cannot be used any more.
bool Relay(const std::filesystem::path& daemon, const Request& request, Connection& connection);

// Answers with an error of this server itself.
bool Refuse(Connection& connection, const Refusal& refusal);

}  // namespace gpuman::web
