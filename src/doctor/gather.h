// Reads the facts that this machine shows without the daemon. These functions block: drivers may take
// seconds, or hang. So a program should call them in a thread for which it can stop waiting. Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace gpuman::doctor {

// Reads the facts of the driver and the GPUs, through NVML, and the version of libcuda. `root`: the directory
// that has /proc; tests pass another one.
void GatherDriver(Facts& facts, const std::filesystem::path& root = "/");

// Reads the facts of the host. `state_dir`: the state directory of the daemon.
void GatherHost(Facts& facts, const std::filesystem::path& state_dir,
                const std::filesystem::path& root = "/");

// Tests whether the library can be preloaded into a program. `candidates`: paths where it may be.
void GatherShim(Facts& facts, const std::vector<std::filesystem::path>& candidates,
                const std::filesystem::path& root = "/");

// Reads "580.159.04" from /proc/driver/nvidia/version.
std::optional<std::string> KernelVersionIn(const std::string& text);
// Reads "madvise" from "always [madvise] never".
std::optional<std::string> ChosenIn(const std::string& text);

}  // namespace gpuman::doctor
