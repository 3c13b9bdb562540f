#include "plugins/slurm/slurm_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::slurm {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// From slurm.h: steps that srun does not start.
constexpr std::uint32_t kExtern = 0xfffffffc, kBatch = 0xfffffffb, kInteractive = 0xfffffffa;
constexpr std::uint32_t kSpecial = 0xfffffff0;

constexpr base::Millis kShortest{100}, kLongest{60'000};

Result<bool> ParseYesNo(std::string_view name, std::string_view value) {
  if (value == "yes") return true;
  if (value == "no") return false;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}={}: it is yes or no", name, value));
}

Result<> Take(std::string_view name, std::string_view value, PluginSettings& settings) {
  if (name == "socket") {
    if (!value.starts_with('/'))
      return Fail(ErrorCode::kInvalidArgument, fmt::format("socket={}: it is an absolute path", value));
    settings.socket = value;
  } else if (name == "required") {
    GPUMAN_ASSIGN(settings.required, ParseYesNo(name, value));
  } else if (name == "preload") {
    GPUMAN_ASSIGN(settings.preload, ParseYesNo(name, value));
  } else if (name == "timeout") {
    const auto time = base::ParseDuration(value);
    if (!time || *time < kShortest || *time > kLongest)
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("timeout={}: it is a time from 100ms to 60s", value));
    settings.patience = *time;
  } else if (name == "shard") {
    const auto size = base::ParseBytes(value);
    if (!size || size->count == 0)
      return Fail(ErrorCode::kInvalidArgument, fmt::format("shard={}: it is a size such as 1GiB", value));
    settings.shard = *size;
  } else if (name == "share") {
    if (value != "shards" && value != "whole")
      return Fail(ErrorCode::kInvalidArgument, fmt::format("share={}: it is shards or whole", value));
    settings.share_whole = value == "whole";
  } else {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: there are socket, required, timeout, shard, share and preload", name));
  }
  return {};
}

std::vector<std::string> Words(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    if (const auto word = base::TakeUntil(list, ','); !word.empty()) words.emplace_back(word);
  }
  return words;
}

bool IsUuid(const std::string& word) { return word.starts_with("GPU-") || word.starts_with("MIG-"); }

// Where Slurm constrains devices, CUDA_VISIBLE_DEVICES has indices among the step's devices; Slurm's own list
// has the node's indices. A UUID is the same in both.
std::vector<std::string> GpusOf(const SlurmStep& step) {
  auto visible = Words(step.variable("CUDA_VISIBLE_DEVICES").value_or(""));
  if (visible.empty() || visible.front() == "NoDevFiles") return {};
  if (std::all_of(visible.begin(), visible.end(), IsUuid)) return visible;
  const auto on_node = step.variable(step.step >= kSpecial ? "SLURM_JOB_GPUS" : "SLURM_STEP_GPUS");
  return on_node ? Words(*on_node) : visible;
}

// nullopt: the step has no shards, or is not bound by them.
Result<std::optional<base::Bytes>> AllottedTo(const SlurmStep& step, const PluginSettings& settings) {
  const auto text = step.variable("SLURM_SHARDS_ON_NODE");
  if (!text || text->empty()) return std::optional<base::Bytes>{};
  if (step.share && settings.share_whole) return std::optional<base::Bytes>{};
  constexpr std::uint64_t kMax = 1'000'000;
  const auto shards = base::ParseNumber<std::uint64_t>(*text).value_or(0);
  if (shards == 0 || shards > kMax || settings.shard.count > UINT64_MAX / kMax)
    return Fail(ErrorCode::kInternal, fmt::format("SLURM_SHARDS_ON_NODE={} is no number of shards", *text));
  return std::optional(base::Bytes{shards * settings.shard.count});
}

}  // namespace

Result<PluginSettings> ParseSettings(std::span<const std::string_view> words) {
  PluginSettings settings;
  for (const auto word : words) {
    const auto sign = word.find('=');
    const auto name = word.substr(0, sign);
    GPUMAN_TRY(Take(name, sign == std::string_view::npos ? "" : word.substr(sign + 1), settings));
  }
  return settings;
}

Result<base::SizeSpec> ParseLimit(std::string_view option, std::string_view text) {
  auto size = base::ParseSize(text);
  const bool nothing = size && !size->IsRelative() && size->bytes.count == 0;
  if (size && !nothing) return size;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--{}={}: a size is expected, such as 8GiB, 512M, 8589934592 or 50%, of each GPU",
                          option, text));
}

Result<spec::ComputeShare> ParseCompute(std::string_view text) {
  auto share = spec::ParseComputeShare(text);
  if (share) return share;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--{}: {}; it is {}", kComputeOption, share.error().message, share.error().hint));
}

std::string TagOf(const SlurmStep& step) {
  const auto name = step.step == kBatch         ? std::string("batch")
                    : step.step == kInteractive ? std::string("interactive")
                    : step.step == kExtern      ? std::string("extern")
                                                : std::to_string(step.step);
  return fmt::format("slurm-{}.{}", step.job, name);
}

Result<std::optional<api::AttachRequest>> RequestFor(const SlurmStep& step, const PluginSettings& settings) {
  api::AttachRequest request;
  request.gpus = GpusOf(step);
  if (request.gpus.empty()) return std::optional<api::AttachRequest>{};
  request.pid = step.daemon;
  request.tag = TagOf(step);
  request.uid = step.uid;
  request.command = step.command;
  if (step.memory) {
    GPUMAN_ASSIGN(request.memory, ParseLimit(kMemoryOption, *step.memory));
  }
  if (step.soft) {
    GPUMAN_ASSIGN(request.soft, ParseLimit(kSoftOption, *step.soft));
  }
  GPUMAN_ASSIGN(request.at_most, AllottedTo(step, settings));
  request.share = step.share;
  if (step.compute) {
    GPUMAN_ASSIGN(request.compute, ParseCompute(*step.compute));
    if (!step.share)
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--{}: a step that does not share its GPUs has no turns; add --{}",
                              kComputeOption, kShareOption));
  }
  if (step.latency && !step.share)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--{}: a step that does not share its GPUs has nobody to go before; add --{}",
                            kLatencyOption, kShareOption));
  request.latency = step.latency;
  request.preload = settings.preload;
  return std::optional(std::move(request));
}

std::map<std::string, std::string> EnvironmentFor(const api::AttachAnswer& attached,
                                                  const std::string& preloaded) {
  auto environment = attached.environment;
  const auto shim = environment.find("LD_PRELOAD");
  if (shim == environment.end() || preloaded.empty()) return environment;
  // A step within another step already has the shim.
  if (preloaded == shim->second || preloaded.starts_with(shim->second + ":"))
    shim->second = preloaded;
  else
    shim->second += ":" + preloaded;
  return environment;
}

TaskStartDecision OnError(const base::Error& error, const PluginSettings& settings) {
  const std::string hint = error.hint.empty() ? "" : " (" + error.hint + ")";
  // The user's request is wrong: the step must not start without it.
  if (error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsatisfiable)
    return {false, "gpuman: " + error.message + hint};
  if (settings.required)
    return {false, "gpuman: " + error.message + "; on this node nothing starts on a GPU without gpumand"};
  return {true, "gpuman: " + error.message + "; this step runs without limits of its GPU memory"};
}

}  // namespace gpuman::slurm
