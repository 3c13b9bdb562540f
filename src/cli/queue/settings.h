// The settings of `gpuman submit`, and the table of its options: one table for the command line, for lines of
// scripts and for lines of job files.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "cli/command.h"

namespace gpuman::cli::queue {

struct CommandDialect;  // dialect.h

struct Parameter {
  std::string name;
  std::vector<std::string> values;
};

// Options by gpuman's name, each with the line of the script that has it; empty: no line has it.
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
  std::vector<std::string> slurm_options;        // for sbatch: "partition=gpu"
  bool wait = false;
  bool dry_run = false;
  std::string visible_devices;  // "index", "uuid"; empty: the environment decides
  std::string origin;           // the line of the file that the job came from: "list.txt:7"
  std::string line;             // the line of the script that is being read: "job.sh:3"; empty: none
  OptionLines lines;            // the last place of each option

  bool StaysHere() const { return to == "here"; }
  // Begins the next source of options, which overrides the sources before it; lists are replaced as a whole.
  // The command line follows the script's lines.
  void BeginSource() {
    touched.clear();
    line.clear();
  }
  std::set<std::string> touched;  // lists that have an option in the current source
};

// The table's functions write into `settings`, which must live as long as the table. `now` is for times such
// as now+2h.
Options SubmitOptions(SubmitSettings& settings, base::WallTime now);

// The same option, which also notes in settings.lines, under gpuman's `name`, where it was read.
Option WithLine(Option option, std::string name, SubmitSettings& settings);

// The option of a table that has this long name. std::logic_error: there is none, so a name in our code is
// wrong.
const Option& OptionNamed(const Options& table, std::string_view name);

// Turns a name that other tools accept into a tag: characters that a tag cannot have become "-".
std::string TagFrom(std::string_view name);

// Parses "lr=0.1,0.01", or a range "seed=1:10" or "x=0:1:0.25", both ends included.
base::Result<Parameter> ParseParameter(std::string_view text);

}  // namespace gpuman::cli::queue
