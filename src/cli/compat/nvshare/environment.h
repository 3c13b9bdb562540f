// The environment of a job that shares, where its shell was set up for nvshare. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gpuman::cli {

// Removes nvshare's library from LD_PRELOAD: it would look for its own scheduler, and end the program without
// one. The daemon takes over the meaning of nvshare's variables. Returns notes for the user.
std::vector<std::string> LeaveNvshare(std::map<std::string, std::string>& variables);

}  // namespace gpuman::cli
