// Makes one job for each combination of parameters.
//
// In the command, a script and its arguments, the name template and the names of files, {NAME} stands for the
// value of a parameter. All other braces stay as they are, and so does ${NAME}, which belongs to the shell.
// Pure: the caller passes the text of a CSV file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_types.h"
#include "base/result.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

// Names with their values, in the order in which they were given.
using Combination = std::vector<std::pair<std::string, std::string>>;

// Reads a line of names, then a line for each combination (RFC 4180: quotes around a field, two quotes for
// one within the field). Skips blank lines. kInvalidArgument with the line.
base::Result<std::vector<Combination>> ReadCsv(std::string_view text);

// Every combination: the product of the parameters, for each line of the table. The value of the last
// parameter changes fastest. kInvalidArgument where that makes too many jobs, or a name is both a parameter
// and a column of the table.
base::Result<std::vector<Combination>> Combine(const std::vector<Parameter>& parameters,
                                               const std::vector<Combination>& table);

std::string Substitute(std::string_view text, const Combination& values);

// The jobs of a sweep. `name_template` names them; else -1, -2, … follow the job's name, if it has one.
// kInvalidArgument where no text uses a parameter.
base::Result<std::vector<api::Submission>> MakeSweep(const api::Submission& job,
                                                     const std::vector<Combination>& combinations,
                                                     const std::optional<std::string>& name_template);

}  // namespace gpuman::cli::queue
