// What the options of `gpuman submit` say, and the table of these options: one for the command line, for
// lines of scripts and for lines of job files; in gpuman's words and in gflow's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "cli/queue/options.h"

namespace gpuman::cli::queue {

// gflow's --memory is of the host, its numbers alone are minutes and MiB.
enum class Flavour { kGpuman, kGflow };

struct Parameter {
  std::string name;
  std::vector<std::string> values;
};

// Options by gpuman's name for them, and the line of a script that each stood in; empty: in none.
using OptionLines = std::map<std::string, std::string, std::less<>>;

struct SubmitSettings {
  api::Submission job;
  std::vector<Parameter> parameters;          // --param, in order
  std::optional<std::string> parameter_file;  // --param-file
  std::optional<std::string> name_template;
  std::vector<std::string> export_parts{"all"};  // "all", "none", NAME, NAME=VALUE
  std::optional<std::string> command;            // --command
  std::optional<std::string> jobs_file;          // --jobs
  std::string to = "here";                       // "here", "slurm"
  std::vector<std::string> slurm_options;        // of sbatch: "partition=gpu"
  bool wait = false;
  bool dry_run = false;
  std::string visible_devices;  // "index", "uuid"; empty: as the environment has it
  std::string origin;           // the line of a file that it came from: "list.txt:7"
  std::string line;             // that is being read, of a script: "job.sh:3"; empty: of none
  OptionLines lines;            // where each option stood last

  // What comes now replaces what was said before, lists as a whole: the command line after the script's
  // lines.
  void BeginSource() {
    touched.clear();
    line.clear();
  }
  std::set<std::string> touched;  // lists that the current source has begun
};

// The table's functions write into `settings`, which must live as long. `now` is for times such as now+2h.
Options SubmitOptions(SubmitSettings& settings, Flavour flavour, base::WallTime now);

// A name as gflow and Slurm take it, made into a tag: characters that no tag has become "-".
std::string TagFrom(std::string_view name);

// "lr=0.1,0.01", or a range "seed=1:10" or "x=0:1:0.25", both ends included.
base::Result<Parameter> ParseParameter(std::string_view text);

}  // namespace gpuman::cli::queue
