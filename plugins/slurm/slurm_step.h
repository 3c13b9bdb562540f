// The decisions of the Slurm plugin: from its options, the facts of a step and gpumand's answer the plugin
// derives the request to gpumand, the tasks' environment, and whether the tasks may start. Pure; independent
// of Slurm.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/attach_types.h"
#include "base/result.h"
#include "base/units.h"
#include "spec/compute_share.h"

namespace gpuman::slurm {

// The words behind the plugin in plugstack.conf.
struct PluginSettings {
  std::string socket = "/run/gpuman/gpumand.sock";
  bool required = false;             // no task starts that gpumand does not supervise
  base::Millis patience{5000};       // for gpumand's answer, 100 ms to 60 s
  base::Bytes shard = base::GiB(1);  // the GPU memory that one shard stands for
  bool share_whole = false;          // the shards of a step that shares do not limit it
  bool preload = true;               // use the shim; false: only the guard holds the limit
};

// kInvalidArgument names the word and lists the known ones.
base::Result<PluginSettings> ParseSettings(std::span<const std::string_view> words);

inline constexpr const char* kMemoryOption = "gpuman-mem";
inline constexpr const char* kSoftOption = "gpuman-soft";
inline constexpr const char* kShareOption = "gpuman-share";
inline constexpr const char* kComputeOption = "gpuman-compute";
inline constexpr const char* kLatencyOption = "gpuman-latency";

// The value of --gpuman-mem or --gpuman-soft. kInvalidArgument names the option and what is expected.
base::Result<base::SizeSpec> ParseLimit(std::string_view option, std::string_view text);
// The value of --gpuman-compute, likewise.
base::Result<spec::ComputeShare> ParseCompute(std::string_view text);

// A step's part on this node.
struct SlurmStep {
  std::uint32_t job = 0;
  std::uint32_t step = 0;  // Slurm's number, including the special ones
  std::int64_t uid = 0;
  int daemon = 0;  // pid of the slurmstepd that starts its tasks
  std::vector<std::string> command;
  std::optional<std::string> memory, soft;  // the options' values, as given
  bool share = false;
  std::optional<std::string> compute;  // the option's value, as given
  bool latency = false;
  // Reads a variable of the step's environment. Only Slurm's own variables are read: Slurm sets them anew for
  // each step that has GPUs or shards.
  std::function<std::optional<std::string>(const char* name)> variable;
};

// "slurm-12.0", "slurm-12.batch".
std::string TagOf(const SlurmStep& step);

// The request to gpumand; nullopt: the step has no GPU.
base::Result<std::optional<api::AttachRequest>> RequestFor(const SlurmStep& step,
                                                           const PluginSettings& settings);

// The variables for the step's tasks; `preloaded` is their present LD_PRELOAD.
std::map<std::string, std::string> EnvironmentFor(const api::AttachAnswer& attached,
                                                  const std::string& preloaded);

// What the plugin does with a task that gpumand could not attach.
struct TaskStartDecision {
  bool may_start = false;
  std::string message;  // for the user, one line
};
TaskStartDecision OnError(const base::Error& error, const PluginSettings& settings);

}  // namespace gpuman::slurm
