// The edge: reads the facts that this machine shows without the daemon. Blocks; drivers may take seconds, or
// hang, so a program should call these where it can give up waiting. Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace gpuman::doctor {

// Reads driver and GPUs, through NVML and libcuda's version. `root` holds /proc, for tests.
void GatherDriver(Facts& facts, const std::filesystem::path& root = "/");

// Reads the host. `state_dir`: the daemon's.
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
