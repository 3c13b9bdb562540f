// The state of a job, in its record and as users see it. Scripts match on the words, so they never change.
#pragma once

#include <optional>
#include <string_view>

#include "base/words.h"

namespace gpuman::spec {

// Queued: waits for its start. Held: waits until it is released. Suspended: off its GPUs; only for users,
// since the record has kRunning. Finished: ended with status 0, or the status is not known. Failed: ended in
// another way without an order, or was never started. Cancelled: its owner did not want it any more, started
// or not. Timeout: its time limit ended it. Killed: gpuman ended it, because of a limit, under pressure or
// because it was asked to.
enum class JobState {
  kQueued,
  kHeld,
  kStarting,
  kRunning,
  kSuspended,
  kStopping,
  kFinished,
  kFailed,
  kCancelled,
  kTimeout,
  kKilled
};
constexpr auto WordsOf(JobState) {
  using enum JobState;
  return base::Words<JobState, 11>{{{kQueued, "queued"},
                                    {kHeld, "held"},
                                    {kStarting, "starting"},
                                    {kRunning, "running"},
                                    {kSuspended, "suspended"},
                                    {kStopping, "stopping"},
                                    {kFinished, "finished"},
                                    {kFailed, "failed"},
                                    {kCancelled, "cancelled"},
                                    {kTimeout, "timeout"},
                                    {kKilled, "killed"}}};
}
constexpr std::string_view ToString(JobState state) { return base::WordOf(WordsOf(state), state); }
constexpr std::optional<JobState> JobStateFromString(std::string_view word) {
  return base::ValueOf(WordsOf(JobState{}), word);
}

constexpr bool IsEnded(JobState state) { return state >= JobState::kFinished; }
// No run exists, and the job waits for one.
constexpr bool IsWaiting(JobState state) { return state == JobState::kQueued || state == JobState::kHeld; }

}  // namespace gpuman::spec
