#include "spec/job_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/option_rules.h"

namespace gpuman::spec {
namespace {

using base::ErrorCode;
using base::Fail;

base::Result<> Refuse(std::string_view field, std::string_view problem) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", field, problem));
}

base::Result<> CheckGpus(const GpuRequest& gpus) {
  GPUMAN_TRY(FirstProblemOf([&](const Report& report) { CheckGpuRequest(gpus, report); }));
  if (gpus.devices.size() > static_cast<std::size_t>(gpus.count))
    return Refuse("gpus.count", fmt::format("it is 0, but {} GPUs are named", gpus.devices.size()));
  return {};
}

base::Result<> CheckName(std::string_view field, std::string_view name) {
  if (name.size() > 255) return Refuse(field, "it is longer than 255 bytes");
  const bool printable =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!printable) return Refuse(field, "it has control characters in it");
  return {};
}

base::Result<> CheckTexts(const JobSpec& spec) {
  GPUMAN_TRY(CheckName("project", spec.project.value_or("")));
  GPUMAN_TRY(CheckName("group", spec.group.value_or("")));
  GPUMAN_TRY(CheckName("gpus.model", spec.gpus.model.value_or("")));
  bool nul = false;
  ForEachText(spec, [&](const std::string& text) { nul = nul || text.find('\0') != std::string::npos; });
  if (nul)
    return Fail(ErrorCode::kInvalidArgument, "the name of a file, or another name, has a NUL byte in it");
  if (spec.script.find('\0') != std::string::npos) return Refuse("script", "it has a NUL byte in it");
  return {};
}

base::Result<> CheckBegin(const std::optional<WallTime>& begin) {
  const WallTime latest(kLongestTime * 20);
  if (begin && (*begin < WallTime{} || *begin > latest))
    return Refuse("begin", "it is no time that will come");
  return {};
}

base::Result<> CheckDependencies(const Dependencies& depends) {
  for (const Dependency& each : depends.list)
    if (each.job.value < 1) return Refuse("depends", fmt::format("it names job {}", each.job.value));
  return {};
}

}  // namespace

base::Result<> Validate(const JobSpec& spec) {
  GPUMAN_TRY(CheckGpus(spec.gpus));
  if (spec.memory_on_each && spec.memory_on_each->count == 0) return Refuse("memory", "it is zero");
  GPUMAN_TRY(CheckTexts(spec));
  GPUMAN_TRY(FirstProblemOf([&](const Report& report) { CheckJobOptions(spec, report); }));
  if (spec.group.has_value() != spec.max_concurrent.has_value())
    return Refuse("group", "it needs a name and a limit");
  GPUMAN_TRY(CheckBegin(spec.begin));
  return CheckDependencies(spec.depends);
}

base::Result<> ValidateForQueue(const JobSpec& spec) {
  GPUMAN_TRY(Validate(spec));
  const GpuRequest& gpus = spec.gpus;
  if (gpus.count > 0) {
    if (spec.share && !spec.memory)
      return Refuse("memory", "it must be given for a job that shares its GPUs");
    return {};
  }
  if (spec.share) return Refuse("share", "it needs a number of GPUs");
  if (gpus.model || gpus.free_memory)
    return Refuse("gpus.count", "it must be given with a model or with free memory");
  return {};
}

std::string_view ToString(RestartMode mode) { return base::WordOf(WordsOf(mode), mode); }
std::string_view ToString(DependencyKind kind) { return base::WordOf(WordsOf(kind), kind); }
std::string_view ToString(DependencyMode mode) { return base::WordOf(WordsOf(mode), mode); }
std::string_view ToString(NotifyOn event) { return base::WordOf(WordsOf(event), event); }
std::optional<DependencyKind> DependencyKindFromString(std::string_view word) {
  return base::ValueOf(WordsOf(DependencyKind{}), word);
}

}  // namespace gpuman::spec
