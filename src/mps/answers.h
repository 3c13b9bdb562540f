// Parses the answers of nvidia-cuda-mps-control. Pure; thread-safe.
//
// The program has no error status: it refuses with a sentence in place of a value. The parsers return
// kConflict with that sentence.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::mps {

// get_server_list, get_client_list: one process id on each line; an empty answer means no process.
base::Result<std::vector<pid_t>> ParsePids(std::string_view answer);

// get_active_thread_percentage and get_default_active_thread_percentage: "50.0".
base::Result<double> ParsePercentage(std::string_view answer);

// get_device_pinned_mem_limit and get_default_device_pinned_mem_limit: "8192M", "8G"; "0" or an empty answer:
// no limit.
base::Result<std::optional<base::Bytes>> ParseMemoryLimit(std::string_view answer);

// For commands whose answer is empty or the value that was set. Any other answer is a refusal.
base::Result<> ParseDone(std::string_view answer);

// The limit of device 0 in CUDA_MPS_PINNED_DEVICE_MEM_LIMIT ("0=8G,1=512M"); nullopt: there is none, or the
// text is not valid.
std::optional<base::Bytes> MemoryVariable(std::string_view text);
// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; nullopt: the text is not a valid number.
std::optional<double> ThreadsVariable(std::string_view text);

}  // namespace gpuman::mps
