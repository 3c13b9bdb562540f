// What each option of a job may be, by itself, with the bounds. The API's requests, a stored job and the
// command line follow the same rules.
//
// Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "spec/job_options.h"
#include "spec/job_spec.h"

namespace gpuman::spec {

inline constexpr int kMaxGpusOfJob = 1024;
inline constexpr int kMaxCpus = 1'000'000;
inline constexpr int kMaxRetries = 1000;
inline constexpr int kHighestSignal = 64;
inline constexpr std::size_t kMaxReceivers = 10;      // of webhooks, and of mails
inline constexpr std::size_t kMaxEventsNamed = 100;   // of notify.on
inline constexpr std::size_t kLongestPath = 4095;     // bytes, of a file and the like (PATH_MAX)
inline constexpr int kMaxConcurrent = 100'000;        // of the jobs of a group
inline constexpr double kLowestWeight = 0.001, kHighestWeight = 1000;
inline constexpr int kLowestExitCode = 1, kHighestExitCode = 255;  // of a failure
inline constexpr std::size_t kLongestName = 64;                    // bytes, of a project and of a job
// Ten years: sums of waiting times and lengths stay far from overflow.
inline constexpr Millis kShortestIdle{100};  // of idle_suspend
inline constexpr Millis kLongestTime = std::chrono::hours(24 * 366 * 10);

// Called with what is wrong: the field as the API names it ("retries.count"), and the rest of the sentence
// ("-1 lies outside 0 to 1000", "it is zero").
using Report = std::function<void(std::string_view field, const std::string& problem)>;
// What the rules report first, as kInvalidArgument: "retries.count: -1 lies outside 0 to 1000".
base::Result<> FirstProblemOf(const std::function<void(const Report&)>& rules);

void CheckRunOptions(const RunOptions& options, const Report& report);
void CheckJobOptions(const JobOptions& options, const Report& report);  // with those of RunOptions
// `count` may be 0 where devices are named.
void CheckGpuRequest(const GpuRequest& gpus, const Report& report);
// Whether options agree that a request sets together: a warning needs a time limit, a limit of jobs needs a
// group, and a list of events to notify of needs a receiver.
void CheckWarning(const JobOptions& options, const Report& report);
void CheckGroup(const JobOptions& options, const Report& report);
void CheckReceivers(const JobOptions& options, const Report& report);
void CheckEnvironment(const std::map<std::string, std::string>& variables, const Report& report);
void CheckDirectory(const std::string& directory, const Report& report);  // absolute, or empty
void CheckUmask(std::uint32_t umask, const Report& report);

}  // namespace gpuman::spec
