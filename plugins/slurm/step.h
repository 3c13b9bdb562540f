// What the Slurm plugin decides: from its options, what Slurm says of a step and what gpumand answers, to
// what is asked of gpumand, what the tasks find in their environment and whether they may start. Pure; knows
// no Slurm.
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

namespace gpuman::slurm {

// What stands behind the plugin in plugstack.conf.
struct StepSettings {
  std::string socket = "/run/gpuman/gpumand.sock";
  bool required = false;             // no task starts that gpumand does not hold
  base::Millis patience{5000};       // for gpumand's answer, 100 ms to 60 s
  base::Bytes shard = base::GiB(1);  // what one of them allows to have
  bool share_whole = false;          // one that shares is not bound by its shards
  bool preload = true;               // the shim; false: the guard alone
};

// kInvalidArgument names the word and says what is known.
base::Result<StepSettings> ParseSettings(std::span<const std::string_view> words);

inline constexpr const char* kMemoryOption = "gpuman-mem";
inline constexpr const char* kSoftOption = "gpuman-soft";
inline constexpr const char* kShareOption = "gpuman-share";

// The value of --gpuman-mem or --gpuman-soft. kInvalidArgument names the option and what is expected.
base::Result<base::SizeSpec> ParseLimit(std::string_view option, std::string_view text);

// A step's part on this node.
struct Step {
  std::uint32_t job = 0;
  std::uint32_t step = 0;  // as Slurm numbers them, the special ones too
  std::int64_t uid = 0;
  int daemon = 0;  // pid of the slurmstepd that starts its tasks
  std::vector<std::string> command;
  std::optional<std::string> memory, soft;  // of the options, as given
  bool share = false;
  // A variable of its environment. Those that are read are Slurm's own: it sets them anew for each step that
  // has GPUs or shards.
  std::function<std::optional<std::string>(const char* name)> variable;
};

// "slurm-12.0", "slurm-12.batch".
std::string TagOf(const Step& step);

// What to ask gpumand; nullopt: the step has no GPU.
base::Result<std::optional<api::AttachRequest>> RequestFor(const Step& step, const StepSettings& settings);

// What its tasks get in their environment; `preloaded` is their LD_PRELOAD so far.
std::map<std::string, std::string> EnvironmentFor(const api::Attached& attached,
                                                  const std::string& preloaded);

// What becomes of a task that could not be put under gpumand.
struct Refusal {
  bool may_start = false;
  std::string message;  // for the user, one line
};
Refusal OnError(const base::Error& error, const StepSettings& settings);

}  // namespace gpuman::slurm
