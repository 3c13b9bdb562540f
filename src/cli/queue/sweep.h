// One job for each combination of parameters.
//
// In the command, a script and its arguments, the name template and the names of files, {NAME} stands for the
// value of a parameter. Only names of parameters: every other brace stays as it is, and so does ${NAME},
// which is the shell's. Pure but for reading no file: the caller passes a CSV file's text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_types.h"
#include "base/result.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

// Names in the order in which they were given, each with its value.
using Combination = std::vector<std::pair<std::string, std::string>>;

// A line of names, then a line for each combination (RFC 4180: quotes around a field, two for one within).
// Blank lines are passed over. kInvalidArgument with the line.
base::Result<std::vector<Combination>> ReadCsv(std::string_view text);

// Every combination: the product of the parameters, for each line of the table. The last parameter changes
// first. kInvalidArgument where one job too many would come of it, or a name is in both.
base::Result<std::vector<Combination>> Combine(const std::vector<Parameter>& parameters,
                                               const std::vector<Combination>& table);

std::string Substitute(std::string_view text, const Combination& values);

// The jobs of a sweep. `name_template` names them; else a job that has a name gets -1, -2, … behind it.
// kInvalidArgument where a parameter stands nowhere.
base::Result<std::vector<api::Submission>> MakeSweep(const api::Submission& job,
                                                     const std::vector<Combination>& combinations,
                                                     const std::optional<std::string>& name_template);

}  // namespace gpuman::cli::queue
