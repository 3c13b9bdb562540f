#include "jobs/retention.h"

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <utility>

namespace gpuman::jobs {
namespace {

// Order by age. A job whose end lies in the future ended before the clock was set back, so it is older than
// jobs that ended since.
struct Age {
  base::WallTime ended_at;
  JobId id;
  friend auto operator<=>(const Age&, const Age&) = default;
};

Age AgeOf(const EndedJob& job, base::WallTime now) {
  return {job.ended_at > now ? base::WallTime{} : job.ended_at, job.id};
}

}  // namespace

std::vector<JobId> ToForget(const std::vector<EndedJob>& ended, const RetentionBounds& bounds,
                            std::map<uid_t, TextAccount> text, base::WallTime now) {
  std::map<uid_t, std::deque<const EndedJob*>> users;
  for (const EndedJob& job : ended) users[job.user].push_back(&job);
  std::vector<JobId> forgotten;
  std::size_t left = ended.size();
  const auto forget = [&](const EndedJob& job) {
    forgotten.push_back(job.id);
    --left;
  };
  const auto forget_oldest = [&](std::deque<const EndedJob*>& jobs) {
    forget(*jobs.front());
    jobs.pop_front();
  };
  for (auto& [user, jobs] : users) {
    std::sort(jobs.begin(), jobs.end(),
              [&](const EndedJob* a, const EndedJob* b) { return AgeOf(*a, now) < AgeOf(*b, now); });
    const auto account = text.find(user);
    const auto take_out = [&](const EndedJob& job) {
      if (account != text.end()) account->second.Remove(job.text);
    };
    std::erase_if(jobs, [&](const EndedJob* job) {
      if (job->ended_at >= bounds.oldest) return false;
      take_out(*job);
      forget(*job);
      return true;
    });
    while (!jobs.empty() && bounds.text.count > 0 && account != text.end() &&
           account->second.bytes() > bounds.text) {
      take_out(*jobs.front());
      forget_oldest(jobs);
    }
  }
  // The user with the most jobs comes last; of two users with as many jobs, the one whose oldest job is
  // older.
  using Rank = std::tuple<std::size_t, base::WallTime::duration, uid_t>;
  const auto rank_of = [&](uid_t user, const std::deque<const EndedJob*>& jobs) {
    return Rank{jobs.size(), -AgeOf(*jobs.front(), now).ended_at.time_since_epoch(), user};
  };
  std::set<Rank> ranks;
  if (left > bounds.count)
    for (const auto& [user, jobs] : users)
      if (!jobs.empty()) ranks.insert(rank_of(user, jobs));
  while (left > bounds.count) {
    const uid_t user = std::get<uid_t>(*ranks.rbegin());
    ranks.erase(std::prev(ranks.end()));
    auto& jobs = users.at(user);
    forget_oldest(jobs);
    if (!jobs.empty()) ranks.insert(rank_of(user, jobs));
  }
  return forgotten;
}

}  // namespace gpuman::jobs
