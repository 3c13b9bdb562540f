// Turns a command line into the request for the daemon: a command, a script, or a file of many jobs, with
// options.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "base/result.h"
#include "cli/command.h"
#include "cli/queue/origin.h"
#include "cli/queue/settings.h"
#include "cli/queue/tool_compatibility.h"

namespace gpuman::cli::queue {

// Says how the daemon names the job's GPUs in CUDA_VISIBLE_DEVICES; jobs/launch_plan.h reads it.
inline constexpr const char* kVisibleDevices = "GPUMAN_VISIBLE_DEVICES";

// What surrounds a submission; tests make their own.
struct SubmitContext {
  const ToolCompatibility& tools;
  LaunchContext origin{};
  base::WallTime now{};
  // Reads all of standard input; absent: it is a terminal, and gpuman does not read from it.
  std::function<base::Result<std::string>()> standard_input{};
};

struct MadeSubmission {
  api::SubmitRequest request;
  bool wait = false;
  bool to_other_queue = false;             // --to slurm
  std::vector<std::string> slurm_options;  // --slurm-option
  std::string script_name;                 // the name of a script that has a file
  std::vector<std::string> left_out;       // variables that are not UTF-8
  std::vector<std::string> notes;
  std::vector<std::string> origins;  // of each job: "list.txt:7"; empty where the job alone identifies it
  OptionLines lines;                 // the lines of a script
};

// Reads the script, the file of jobs or the file of parameters that the command line names. `settings` have
// the values of the options of `line`; for a script, MakeSubmission applies these options once more, after
// the lines of the script. kInvalidArgument names the option, or the file and its line; kNotFound and
// kPermissionDenied for files and programs.
base::Result<MadeSubmission> MakeSubmission(SubmitSettings settings, const CommandLine& line,
                                            const CommandDialect& dialect, const SubmitContext& context);

// A job that is one command: `line` has the command, `settings` the values of all its options. MakeOneJob
// does not check whether the job fits into the queue: Check does that.
base::Result<MadeSubmission> MakeOneJob(SubmitSettings settings, const CommandLine& line,
                                        const SubmitContext& context);
// kInvalidArgument names the option.
base::Result<> Check(const MadeSubmission& made, const CommandDialect& dialect);

// Reads the jobs of a file, one a line ("--gpus 1 --name a -- python train.py"), or JSON: one Submission a
// line, or an array of them. `typed` applies to each line with options, which override it. Reads no file;
// `name` is for errors.
base::Result<std::vector<SubmitSettings>> ReadJobs(std::string_view text, std::string_view name,
                                                   const SubmitSettings& typed, const CommandDialect& dialect,
                                                   base::WallTime now);

}  // namespace gpuman::cli::queue
