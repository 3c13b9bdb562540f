// What nvidia-cuda-mps-control answers. Pure; thread-safe.
//
// The program has no error status: a refusal is a sentence where a value is expected, and becomes kConflict
// with that sentence.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::mps {

// get_server_list, get_client_list: process ids, one a line; none is an empty answer.
base::Result<std::vector<pid_t>> ParsePids(std::string_view answer);

// get_active_thread_percentage and its default: "50.0".
base::Result<double> ParsePercentage(std::string_view answer);

// get_device_pinned_mem_limit and its default: "8192M", "8G", "0" or nothing for no limit.
base::Result<std::optional<base::Bytes>> ParseMemoryLimit(std::string_view answer);

// Of commands that answer nothing, or the value that was set: anything else is a refusal.
base::Result<> ParseDone(std::string_view answer);

// The limit of device 0 in CUDA_MPS_PINNED_DEVICE_MEM_LIMIT ("0=8G,1=512M"); nullopt: none, or no such text.
std::optional<base::Bytes> MemoryVariable(std::string_view text);
// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; nullopt: no such number.
std::optional<double> ThreadsVariable(std::string_view text);

}  // namespace gpuman::mps
