// Handles the processes and the cgroup that a new keeper finds of an earlier keeper that was killed.
#pragma once

#include <string>

#include "base/process.h"
#include "keeper/journal.h"

namespace gpuman::keeper {

// The variable that marks every process of a job; children inherit it.
inline constexpr const char* kKeyVariable = "GPUMAN_JOB_KEY";
std::string MakeKey();  // 32 random hex digits

// Kills the processes that the earlier keeper's job left, found by its cgroup and its key, and waits until
// they are gone, some seconds at most. The earlier keeper must be dead and of this boot.
void EndLeftoversOf(const KeeperStarted& earlier, const base::ProcessTable& table);

}  // namespace gpuman::keeper
