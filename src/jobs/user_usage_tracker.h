// Counts what the jobs of each user take of the user's bounds: how many run, and the memory for their text.
// Pure.
//
// Each job is counted by an entry, which its owner (JobIndex) keeps: shared texts are identified by address,
// and must live until the entry is taken back. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>

#include "base/result.h"
#include "base/units.h"
#include "jobs/job.h"
#include "jobs/text_account.h"

namespace gpuman::jobs {

// The bounds of each user but root. 0: no bound.
struct UserBounds {
  std::size_t running = 0;  // jobs that run at once
  base::Bytes text{};       // of jobs that have not ended; ended jobs have the same bound again
};

class UserUsageTracker {
 public:
  // How one job counts.
  struct Entry {
    uid_t user = 0;
    bool ended = false;
    bool running = false;  // it has a keeper of gpuman
    TextAccount::Entry text{};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  static Entry EntryOf(const Job& job);

  // A job counts as `now`, and no more as `before`. nullopt: not at all.
  void Count(const std::optional<Entry>& before, const std::optional<Entry>& now);

  // kUnsatisfiable, with the numbers. `claimed`: text of the user's jobs that are on their way here.
  base::Result<> MayAddText(const JobOwner& owner, base::Bytes claimed, base::Bytes more,
                            const UserBounds& bounds) const;
  // kUnsatisfiable: a job that counts as `counted` and has not ended would take too much as `changed`.
  // Changes nothing.
  base::Result<> MayChangeText(const Entry& counted, const Job& changed, const UserBounds& bounds);
  // kUnsatisfiable: the job is one too many, or its text is too much.
  base::Result<> MayBegin(const Job& job, const UserBounds& bounds) const;
  // Whether the text of the user's ended jobs passes the bound by more than a twentieth.
  bool HasTooManyEnded(uid_t user, const UserBounds& bounds) const;
  // The accounts of the ended jobs of those users.
  std::map<uid_t, TextAccount> TooManyEnded(const UserBounds& bounds) const;

 private:
  struct Totals {
    TextAccount open, ended;
    std::size_t running = 0;
    std::size_t jobs = 0;
  };

  std::map<uid_t, Totals> users_;  // users who have a job
};

}  // namespace gpuman::jobs
