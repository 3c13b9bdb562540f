// Answers users' questions to the queue: whether a job may be changed as asked, and what that changes.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/queue/dispatcher.h"
#include "queue/admission.h"
#include "spec/json.h"

namespace gpuman::daemon {
namespace {

using base::Fail;
using base::JobId;
using base::Result;
using queue::AccountKind;

}  // namespace

Result<Dispatcher::Claim> Dispatcher::MayBecome(const jobs::Job& changed) {
  const auto& project = changed.spec->project.value_or("");
  const auto account = updater_.AccountOf(AccountKind::kUser, changed.owner->user);
  const auto its_project =
      project.empty() ? queue::kNone : updater_.AccountOf(AccountKind::kProject, project);
  GPUMAN_TRY(queue::CanEverRun(updater_.snapshot(), updater_.NeedOf(*changed.spec), changed.spec->gpus,
                               account, its_project));
  GPUMAN_ASSIGN(auto claim, claims_.TakeForChange(changed));
  // Other changes make no circle, and a search may look at all dependencies that there are.
  const auto* const stored = jobs_.Find(changed.id);
  if (stored && stored->spec->depends == changed.spec->depends) return claim;
  const auto circle = queue::FindCircle(changed.id, changed.spec->depends,
                                        [this](JobId other) { return dependents_.DependenciesOf(other); });
  if (circle.empty()) return claim;
  std::string way;
  for (const JobId id : circle) way += fmt::format("{}{}", way.empty() ? "" : " -> ", id.value);
  return Fail(base::ErrorCode::kInvalidArgument, "depends: jobs would wait for each other: " + way);
}

queue::AffectedSearch Dispatcher::AffectedBy(const std::vector<JobId>& jobs, std::size_t most) const {
  return queue::AffectedSearch(
      dependents_, jobs, [this](JobId id) { return ProgressOf(id); },
      [this](JobId id) {
        const auto* const job = jobs_.Find(id);
        return job && job->spec->auto_cancel;
      },
      most);
}

bool Dispatcher::WasCancelledWith(const jobs::Job& job, const std::set<JobId>& jobs) {
  if (job.state != spec::JobState::kCancelled || job.reason != ToString(queue::WaitReason::kDependencyNever))
    return false;
  const auto& list = job.spec->depends.list;
  return std::any_of(list.begin(), list.end(),
                     [&](const spec::Dependency& each) { return jobs.contains(each.job); });
}

}  // namespace gpuman::daemon
