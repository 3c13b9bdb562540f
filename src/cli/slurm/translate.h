// A submission as sbatch takes it: its options, and the script on its standard input (docs/slurm.md). Pure;
// thread-safe.
//
// Nothing is dropped: what Slurm has no word for is refused by the option's name, with what to do instead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/result.h"
#include "cli/slurm/jobs.h"

namespace gpuman::cli::slurm {

// What a cluster has its own way of.
struct Site {
  std::string project_option = "--account";  // or --comment, --wckey
  base::Bytes shard = base::GiB(1);          // what one of them allows to have
};
// Of GPUMAN_SLURM_PROJECT (account, comment, wckey) and GPUMAN_SLURM_SHARD (a size). kInvalidArgument names
// the variable.
base::Result<Site> SiteOf(const base::EnvironmentLookup& environment);

// What surrounds a submission.
struct TranslationContext {
  Site site;
  std::string directory;  // absolute, where the job has none of its own
  base::WallTime now{};
  std::string fallback_name;               // for a script without a name
  std::vector<std::string> slurm_options;  // "partition=gpu", "--partition=gpu", "-p gpu" is none
  // The job of Slurm's that a dependency names.
  std::function<base::Result<JobName>(const std::string& word)> job_of;
};

struct Translated {
  std::vector<std::string> options;  // "--gres=gpu:2"
  std::string script;
  std::string name;
  // Files as Slurm takes them: absolute, with %j %A %a %x %%. Without `errors` both go to `output`.
  std::string output, errors;
};

base::Result<Translated> Translate(const api::Submission& job, const TranslationContext& context);

// The file of a job under a pattern of Translated's.
std::string ExpandFile(std::string_view pattern, const JobName& name, std::uint32_t id,
                       std::string_view job_name);

}  // namespace gpuman::cli::slurm
