#include "cli/compat/slurm/batch_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line.h"
#include "cli/queue/script.h"

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;

// What the job sets in every kind of script, as lines of a POSIX shell.
std::string Preparations(const api::Submission& job) {
  std::string lines;
  if (job.array)
    lines +=
        "export GPUMAN_ARRAY_TASK_ID=\"$SLURM_ARRAY_TASK_ID\"\n"
        "export GPUMAN_ARRAY_JOB_ID=\"slurm-$SLURM_ARRAY_JOB_ID\"\n";
  if (job.umask) lines += fmt::format("umask {:04o}\n", *job.umask);
  if (job.conda_env)
    lines +=
        fmt::format("eval \"$(\"${{CONDA_EXE:-conda}}\" shell.posix hook)\" && conda activate {} || exit 1\n",
                    JoinCommand({*job.conda_env}));
  return lines;
}

// Runs the command in a subshell of its own, so that a signal to the script ends both.
std::string Again(const api::Submission& job) {
  const auto& retries = job.retries;
  std::string lines = "again=0\nwhile :; do\n";
  lines += fmt::format("  (exec {})\n  status=$?\n", JoinCommand(job.command));
  lines += fmt::format("  if [ \"$status\" -eq 0 ] || [ \"$again\" -ge {} ]; then exit \"$status\"; fi\n",
                       retries.count);
  if (!retries.on_exit_codes.empty())
    lines += fmt::format("  case $status in {}) ;; *) exit \"$status\" ;; esac\n",
                         fmt::join(retries.on_exit_codes, "|"));
  lines += "  again=$((again + 1))\n";
  if (retries.delay.count() > 0)
    lines += fmt::format("  sleep {}\n", static_cast<double>(retries.delay.count()) / 1000);
  return lines + "done\n";
}

bool IsForFish(std::string_view script) {
  return script.starts_with("#!") &&
         script.substr(0, script.find('\n')).find("fish") != std::string_view::npos;
}

}  // namespace

base::Result<std::string> BatchScript(const api::Submission& job) {
  const auto preparations = Preparations(job);
  if (!job.script)
    return "#!/bin/sh\n" + preparations +
           (job.retries.count > 0 ? Again(job) : fmt::format("exec {}\n", JoinCommand(job.command)));
  if (job.retries.count > 0)
    return base::Fail(ErrorCode::kUnsatisfiable,
                      "--retries: Slurm does not run a script again because it failed",
                      "submit it as a command: gpuman submit --to slurm --retries N -- ./SCRIPT ARGUMENTS…");
  std::string inserted = preparations;
  if (!job.arguments.empty()) inserted.insert(0, fmt::format("set -- {}\n", JoinCommand(job.arguments)));
  if (!inserted.empty() && IsForFish(*job.script))
    return base::Fail(ErrorCode::kUnsatisfiable,
                      "a script for fish gets no arguments, array, umask or conda environment through Slurm",
                      "submit it as a command: gpuman submit --to slurm -- fish SCRIPT ARGUMENTS…");
  std::string script = job.script->starts_with("#!") ? *job.script : "#!/bin/sh\n" + *job.script;
  const auto at = queue::FirstCommand(script);
  const bool needs_end = at == script.size() && !script.ends_with('\n') && !inserted.empty();
  return script.insert(at, (needs_end ? "\n" : "") + inserted);
}

}  // namespace gpuman::cli::slurm
