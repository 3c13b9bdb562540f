// The bounds of one job and of one user's jobs, checked before a job is accepted. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "jobs/environment.h"

namespace gpuman::jobs {

// The most bytes of command and environment together, whatever the stack's limit is: 3/4 of its usual limit
// of 8 MiB (execve(2), since Linux 4.13).
inline constexpr base::Bytes kMaxExecuted = base::MiB(6);

// kInvalidArgument, with the numbers: no kernel executes this command, since one word has more than 32 pages,
// or all words together have more than kMaxExecuted. `page`: bytes. If the stack's limit is low, the kernel
// executes less, and the job's end reports that.
base::Result<> CheckExecutable(const std::vector<std::string>& command, const Variables& environment,
                               std::size_t page);
base::Result<> CheckExecutable(const std::vector<std::string>& command, const Variables& environment);

// kUnsatisfiable, with the numbers. `held`: the text of the user's jobs that have not ended. A bound of 0
// means no bound.
base::Result<> CheckText(const std::string& user, base::Bytes held, base::Bytes more, base::Bytes bound);
base::Result<> CheckRunning(const std::string& user, std::size_t running, std::size_t bound);

}  // namespace gpuman::jobs
