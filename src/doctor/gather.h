// The edge: fills in the facts that this machine shows without the daemon. Blocks; drivers may take seconds,
// or hang, so a program calls these where it can be given up (measure.h has the means). Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace gpuman::doctor {

// Driver and GPUs, through NVML and libcuda's version. `root`: where /proc is, for tests.
void GatherDriver(Facts& facts, const std::filesystem::path& root = "/");

// Host. `state_dir`: the daemon's.
void GatherHost(Facts& facts, const std::filesystem::path& state_dir,
                const std::filesystem::path& root = "/");

// Whether the library can be preloaded into a program. `candidates`: places where it may be.
void GatherShim(Facts& facts, const std::vector<std::filesystem::path>& candidates,
                const std::filesystem::path& root = "/");

// "580.159.04" from /proc/driver/nvidia/version.
std::optional<std::string> KernelVersionIn(const std::string& text);
// "madvise" from "always [madvise] never".
std::optional<std::string> ChosenIn(const std::string& text);

}  // namespace gpuman::doctor
