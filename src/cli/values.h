// Values of options, as users write them. Pure; kInvalidArgument says what is wrong and shows the
// right form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::cli {

// The parts between separators; a part must not be empty: "1,2" has two, "1,,2" is refused.
base::Result<std::vector<std::string>> SplitList(std::string_view text, char separator = ',');

template <typename T>
base::Result<T> ParseInteger(std::string_view text, T least, T most);  // int, std::int64_t
// The name of a job. Refused is what begins with '-': an option in front of it has lost its value.
base::Result<std::string> ParseName(std::string_view text);
// "0.5": a part of the turns on a shared GPU.
base::Result<double> ParseWeight(std::string_view text);
// "no", "on-failure", "always".
base::Result<spec::RestartMode> ParseRestartMode(std::string_view text);
// "50%", "12.5%" or without the sign, from 1 to 100: a share of a GPU's threads.
base::Result<double> ParsePercentage(std::string_view text);
// "1,75"
base::Result<std::vector<int>> ParseExitCodes(std::string_view text);

// "2", and Slurm's forms: "gpu:2", "gpu:h100:2", "h100:2".
struct GpuCount {
  int count = 0;
  std::optional<std::string> model;
};
base::Result<GpuCount> ParseGpuCount(std::string_view text);

// "0-99:2%4" and "1,3,5-9": indices in rising order; behind "%" the limit of tasks at the same time.
base::Result<api::ArrayRequest> ParseArray(std::string_view text);

// "afterok:1:2,afterany:prep", or names alone, which mean `kind`. With "?" in place of "," any one of them is
// enough.
base::Result<spec::NamedDependencies> ParseDependencies(
    std::string_view text, spec::DependencyKind kind = spec::DependencyKind::kAfterOk);

// "22:00", "22:00:30" (the next time that the clock shows it), "2026-02-01", "2026-02-01T08:00", with a blank
// for the T, with a Z or as in JSON for UTC, "now", "now+2h", "now+30" (minutes), "tomorrow", "midnight",
// "noon". Times are local; a time that the clocks skip on that day means one hour later.
base::Result<base::WallTime> ParseTime(std::string_view text, base::WallTime now);
// The same with the local time of a zone ("Europe/Berlin"). The function sets TZ for a moment, so the program
// must have only one thread.
base::Result<base::WallTime> ParseTimeIn(const std::string& zone, std::string_view text, base::WallTime now);
// A time in the past: "1h", "2d", "3w", "today", "yesterday", or as ParseTime.
base::Result<base::WallTime> ParseSince(std::string_view text, base::WallTime now);

// The form of gflow and Slurm: "30" is minutes, "5:30" minutes and seconds, "2:00:00", Slurm's "1-12:00:00".
base::Result<base::Millis> ParseMinutes(std::string_view text);
// gflow's form: "512" is MiB.
base::Result<base::Bytes> ParseMebibytes(std::string_view text);
// "[USR1@]60s": a signal this long before the time limit.
struct WarningSignal {
  spec::Signal signal;
  base::Millis before{};
};
base::Result<WarningSignal> ParseWarning(std::string_view text);
// "failed,timeout"; gflow's words are understood: "job_completed" is "finished".
base::Result<std::vector<spec::NotifyOn>> ParseNotifyOn(std::string_view text);

// Expands "42", "1,3,5-7", "train", "7_3", "@" to refs of jobs in their order; a range becomes single ids.
base::Result<std::vector<std::string>> ParseJobs(std::string_view text);
// Expands "0,2", "0-3,6" to indices of GPUs; UUIDs stay as they are. Refuses "all".
base::Result<std::vector<std::string>> ParseGpus(std::string_view text);

}  // namespace gpuman::cli
