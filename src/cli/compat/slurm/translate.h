// Translates a submission for sbatch: its options, and the script on its standard input (docs/slurm.md).
// Pure; thread-safe.
//
// Nothing is dropped: an option without a counterpart in Slurm is refused by its name, with what to do
// instead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/result.h"
#include "cli/compat/slurm/jobs.h"

namespace gpuman::cli::slurm {

// Settings that differ between clusters.
struct ClusterSettings {
  std::string project_option = "--account";  // or --comment, --wckey
  base::Bytes shard = base::GiB(1);          // the GPU memory that one shard stands for
};
// Reads GPUMAN_SLURM_PROJECT (account, comment, wckey) and GPUMAN_SLURM_SHARD (a size). kInvalidArgument
// names the variable.
base::Result<ClusterSettings> SiteOf(const base::EnvironmentLookup& environment);

// What surrounds a submission that is translated.
struct TranslationContext {
  ClusterSettings site;
  std::string directory;  // absolute; for a job without a directory
  base::WallTime now{};
  std::string fallback_name;               // for a script without a name
  std::vector<std::string> slurm_options;  // "partition=gpu" and "--partition=gpu", not "-p gpu"
  // Finds the job of Slurm that a dependency names.
  std::function<base::Result<SlurmJobId>(const std::string& word)> job_of;
};

struct SbatchRequest {
  std::vector<std::string> options;  // "--gres=gpu:2"
  std::string script;
  std::string name;
  // Paths in Slurm's form: absolute, with %j %A %a %x %%. Without `errors` both go to `output`.
  std::string output, errors;
};

base::Result<SbatchRequest> Translate(const api::Submission& job, const TranslationContext& context);

// The file of a job for a pattern of Translated.
std::string ExpandFile(std::string_view pattern, const SlurmJobId& name, std::uint32_t id,
                       std::string_view job_name);

}  // namespace gpuman::cli::slurm
