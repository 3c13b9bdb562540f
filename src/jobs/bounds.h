// What one job may be, and what one user may have: said before a job is taken. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "jobs/environment.h"

namespace gpuman::jobs {

// Of command and environment together, whatever the limit of the stack is: 3/4 of its usual limit of 8 MiB
// (execve(2), since Linux 4.13).
inline constexpr base::Bytes kMaxExecuted = base::MiB(6);

// kInvalidArgument, with the numbers, for what no kernel executes: a word of more than 32 pages, or more than
// kMaxExecuted. `page`: bytes. Where the stack's limit is low less is executed, which the job's end tells.
base::Result<> CheckExecutable(const std::vector<std::string>& command, const Variables& environment,
                               std::size_t page);
base::Result<> CheckExecutable(const std::vector<std::string>& command, const Variables& environment);

// kUnsatisfiable, with the numbers. `held`: of the user's jobs that have not ended. A bound of 0 is none.
base::Result<> CheckText(const std::string& user, base::Bytes held, base::Bytes more, base::Bytes bound);
base::Result<> CheckRunning(const std::string& user, std::size_t running, std::size_t bound);

}  // namespace gpuman::jobs
