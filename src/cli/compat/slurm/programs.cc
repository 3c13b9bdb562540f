#include "cli/compat/slurm/programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/process_spawner.h"
#include "base/run_command.h"
#include "cli/search_path.h"

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using base::Result;

constexpr base::Millis kPatience{60'000}, kSubmitPatience{180'000};

Result<std::filesystem::path> Find(const base::EnvironmentLookup& environment, const std::string& program) {
  for (const auto& folder : FoldersOf(environment("PATH").value_or(std::string(kUsualPath)))) {
    const auto file = std::filesystem::path(folder) / program;
    if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return base::Fail(ErrorCode::kUnavailable, fmt::format("there is no {} in PATH", program),
                    "Slurm's commands are in the package slurm-client; without --to slurm this machine's "
                    "queue runs the job");
}

// Leaves out the caller's own values of these variables: not every program uses the last of two.
std::vector<std::string> CallersEnvironment() {
  std::vector<std::string> variables{"TZ=UTC", "SLURM_TIME_FORMAT=standard"};
  for (auto& variable : base::OwnEnvironment()) {
    const bool ours = variable.starts_with("TZ=") || variable.starts_with("SLURM_TIME_FORMAT=") ||
                      variable.starts_with("SQUEUE_") || variable.starts_with("SACCT_") ||
                      variable.starts_with("SCANCEL_");
    if (!ours) variables.push_back(std::move(variable));
  }
  return variables;
}

}  // namespace

Variables WithThoseOfSlurm(Variables job, const Variables& caller) {
  for (const auto& [name, value] : caller)
    if (name.starts_with("SBATCH_") || name.starts_with("SLURM_CONF") || name == "SLURM_CLUSTERS")
      job.emplace(name, value);
  return job;
}

Result<std::string> SlurmClient::Run(const std::string& program, std::vector<std::string> arguments) const {
  GPUMAN_ASSIGN(auto file, Find(environment_, program));
  base::ProgramRunRequest command{std::move(file), std::move(arguments), CallersEnvironment(), {}, kPatience};
  GPUMAN_ASSIGN(auto finished, base::RunCommand(command));
  if (finished.status != 0) return base::Fail(RefusalOf(program, finished.output));
  return std::move(finished.output);
}

Result<SbatchAnswer> SlurmClient::Submit(const SbatchRequest& job, const Variables& variables) const {
  GPUMAN_ASSIGN(auto file, Find(environment_, "sbatch"));
  base::ProgramRunRequest command{std::move(file), {"--parsable"}, {}, job.script, kSubmitPatience};
  command.arguments.insert(command.arguments.end(), job.options.begin(), job.options.end());
  for (const auto& [name, value] : variables)
    command.environment.push_back(fmt::format("{}={}", name, value));
  auto finished = base::RunCommand(command);
  if (!finished) {
    if (finished.error().code == ErrorCode::kTimeout)
      finished.error().hint = "squeue --me tells whether Slurm has taken the job";
    return base::Fail(std::move(finished.error()));
  }
  auto accepted = finished->status == 0 ? ReadAccepted(finished->output) : std::nullopt;
  if (!accepted) return base::Fail(RefusalOf("sbatch", finished->output));
  return std::move(*accepted);
}

Result<std::vector<SeenJob>> SlurmClient::Queue() const {
  GPUMAN_ASSIGN(const auto text,
                Run("squeue", {"-h", "-u", std::to_string(::geteuid()), "-t", "all", "-o", kQueueFormat}));
  return ReadQueue(text);
}

Result<std::vector<SeenJob>> SlurmClient::FindNow(const SlurmJobId& name) const {
  GPUMAN_ASSIGN(const auto shown, Run("scontrol", {"show", "job", InSlurm(name)}));
  auto jobs = ReadShown(shown);
  if (!jobs.empty()) return jobs;
  return base::Fail(ErrorCode::kNotFound, fmt::format("scontrol says nothing of {}", ToString(name)));
}

Result<std::vector<SeenJob>> SlurmClient::Query(const SlurmJobId& name) const {
  auto now = FindNow(name);
  if (now || now.error().code != ErrorCode::kNotFound) return now;
  // Where Slurm keeps no accounts, sacct fails, and old jobs are unknown.
  const auto kept = Run("sacct", {"-n", "-P", "-X", "-j", InSlurm(name), "-o", kAccountingFormat});
  auto jobs = kept ? ReadAccounting(*kept) : std::vector<SeenJob>();
  if (!jobs.empty()) return jobs;
  return base::Fail(ErrorCode::kNotFound, fmt::format("Slurm does not know {} (any more)", ToString(name)),
                    "Slurm forgets a job some minutes after its end, unless accounting is enabled");
}

Result<> SlurmClient::Cancel(const SlurmJobId& name) const {
  GPUMAN_TRY(Run("scancel", {InSlurm(name)}));
  return {};
}
Result<> SlurmClient::Signal(const SlurmJobId& name, int signal) const {
  GPUMAN_TRY(Run("scancel", {"--full", fmt::format("--signal={}", signal), InSlurm(name)}));
  return {};
}
Result<> SlurmClient::Hold(const SlurmJobId& name) const {
  GPUMAN_TRY(Run("scontrol", {"hold", InSlurm(name)}));
  return {};
}
Result<> SlurmClient::Release(const SlurmJobId& name) const {
  GPUMAN_TRY(Run("scontrol", {"release", InSlurm(name)}));
  return {};
}
Result<> SlurmClient::SetBegin(const SlurmJobId& name, base::Millis from_now) const {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(from_now).count();
  GPUMAN_TRY(Run("scontrol", {"update", "JobId=" + InSlurm(name),
                              fmt::format("StartTime=now+{}", std::max<std::int64_t>(seconds, 0))}));
  return {};
}

}  // namespace gpuman::cli::slurm
