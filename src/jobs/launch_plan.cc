#include "jobs/launch_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "spec/file_name.h"

namespace gpuman::jobs {

std::filesystem::path LogPath(const std::filesystem::path& log_dir, JobId id) {
  return log_dir / fmt::format("{}.log", id.value);
}

std::filesystem::path TracePath(const std::filesystem::path& trace_dir, JobId id) {
  return trace_dir / std::to_string(id.value);
}

std::filesystem::path JobDirectory(const std::filesystem::path& jobs_dir, const Job& job) {
  return jobs_dir / (job.incarnation == 1 ? fmt::format("{}", job.id.value)
                                          : fmt::format("{}.{}", job.id.value, job.incarnation));
}

namespace {

// A job that a traced job starts is not traced for that: its environment is the other one's.
constexpr std::string_view kTraceVariable = "GPUMAN_SHIM_TRACE";

spec::FileNameWords WordsFor(const Job& job) {
  const bool task = job.array.array.value != 0;
  return {job.id.value, task ? std::optional(job.array.array.value) : std::nullopt, job.array.task, job.tag};
}

// `before`: the job's own LD_PRELOAD.
void AddShim(const Job& job, const LaunchSettings& settings, const std::string& before,
             std::vector<std::string>& environment) {
  if (!job.spec->preload || settings.shim.empty()) return;
  environment.push_back("LD_PRELOAD=" + settings.shim.string() + (before.empty() ? "" : ":" + before));
  environment.push_back("GPUMAN_SHIM_SOCKET=" + settings.shim_socket.string());
  const bool takes_turns = job.spec->share && !job.spec->mps;  // clients of MPS stay on their GPU
  if (HasGate(job)) environment.emplace_back("GPUMAN_SHIM_EVICTABLE=1");
  const std::string memory = job.spec->oversubscribe ? "oversubscribe"
                             : takes_turns           ? settings.shared_memory
                                                     : "";
  if (!memory.empty()) environment.push_back("GPUMAN_SHIM_MEMORY=" + memory);
}

void AddIdentity(const Job& job, std::vector<std::string>& environment) {
  environment.push_back(fmt::format("GPUMAN_JOB_ID={}", job.id.value));
  environment.push_back("GPUMAN_JOB_TAG=" + job.tag);
}

// The names of the GPUs for CUDA_VISIBLE_DEVICES.
std::vector<std::string> NamesOfDevices(const std::vector<std::string>& gpus, const Job& job,
                                        const std::map<std::string, unsigned>& indices) {
  const auto wish = job.environment->find("GPUMAN_VISIBLE_DEVICES");
  if (wish == job.environment->end() || wish->second != "index") return gpus;
  std::vector<std::string> names;
  for (const auto& uuid : gpus) {
    const auto it = indices.find(uuid);
    if (it == indices.end()) return gpus;
    names.push_back(std::to_string(it->second));
  }
  return names;
}

// A job of the queue has the GPUs that it was given; if it was given none, it has none.
void AddVisibleGpus(const Job& job, const LaunchSettings& settings, std::vector<std::string>& environment) {
  if (job.queued && job.gpus.empty()) environment.emplace_back("CUDA_VISIBLE_DEVICES=");
  const auto& gpus = job.gpus.empty() && !job.queued ? settings.all_gpus : job.gpus;
  if (gpus.empty() || (job.gpus.empty() && job.environment->contains("CUDA_VISIBLE_DEVICES"))) return;
  const auto names = NamesOfDevices(gpus, job, settings.gpu_indices);
  environment.push_back(fmt::format("CUDA_VISIBLE_DEVICES={}", fmt::join(names, ",")));
  environment.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

// Options that only jobs of the queue have.
void SetQueueOptions(const Job& job, keeper::Spec& spec) {
  const spec::JobSpec& asked = *job.spec;
  spec.script = asked.script;
  spec.time_limit = {asked.time_limit, asked.warn_signal.value_or(spec::Signal{}).number,
                     asked.warn_before.value_or(base::Millis{0})};
  spec.host = {asked.host_memory, asked.cpus.value_or(0)};
  spec.standard_input = asked.stdin_file.value_or("");
  const auto file = [words = WordsFor(job)](const std::optional<std::string>& pattern) {
    return spec::ExpandFileName(pattern.value_or(""), words);
  };
  spec.standard_output = file(asked.stdout_file);
  spec.standard_error = file(asked.stderr_file);
}

}  // namespace

std::vector<std::string> AttachedEnvironment(const Job& job, const LaunchSettings& settings) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : *job.environment) environment.push_back(fmt::format("{}={}", name, value));
  AddIdentity(job, environment);
  AddShim(job, settings, "", environment);
  return environment;
}

keeper::Spec PlanLaunch(const Job& job, const LaunchSettings& settings) {
  keeper::Spec spec;
  spec.job_id = job.id.value;
  spec.tag = job.tag;
  spec.argv = job.command;
  spec.uid = job.owner->uid;
  spec.gid = job.owner->gid;
  spec.groups = job.owner->groups;
  spec.cwd = *job.directory;
  spec.umask = job.umask;
  spec.oom_score_adj = settings.oom_score_adj;
  for (const auto& [name, value] : *job.environment)
    if (name != kTraceVariable) spec.environment.push_back(fmt::format("{}={}", name, value));
  for (const auto& [resource, values] : *job.resource_limits)
    spec.limits.push_back({resource, values.first, values.second});

  AddIdentity(job, spec.extra_environment);
  if (job.array.array.value != 0) {
    spec.extra_environment.push_back(fmt::format("GPUMAN_ARRAY_JOB_ID={}", job.array.array.value));
    spec.extra_environment.push_back(fmt::format("GPUMAN_ARRAY_TASK_ID={}", job.array.task));
  }
  AddVisibleGpus(job, settings, spec.extra_environment);
  for (const auto& variable : settings.mps) spec.extra_environment.push_back(variable);
  const auto& variables = *job.environment;
  const auto before = variables.find("LD_PRELOAD");
  AddShim(job, settings, before != variables.end() ? before->second : "", spec.extra_environment);

  spec.log.path = LogPath(settings.log_dir, job.id);
  spec.log.size_limit = settings.log_size;
  spec.log.rotations = settings.log_files;
  if (job.spec->trace_allocations && job.spec->preload && !settings.shim.empty() &&
      !settings.trace_dir.empty()) {
    spec.traces = TracePath(settings.trace_dir, job.id);
    spec.extra_environment.push_back(fmt::format("{}={}", kTraceVariable, spec.traces.string()));
  }
  spec.restart = settings.restart;
  spec.restart.mode = job.spec->restart;
  if (job.queued) SetQueueOptions(job, spec);
  spec.stop_grace = job.spec->grace.value_or(settings.stop_grace);
  return spec;
}

}  // namespace gpuman::jobs
