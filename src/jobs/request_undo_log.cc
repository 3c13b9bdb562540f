#include "jobs/request_undo_log.h"

#include <iterator>
#include <utility>

#include "spec/json.h"

namespace gpuman::jobs {
namespace {

// Undoes the change of each member, and of each field of the spec, that was not changed again since.
void TakeBack(Job& now, const RequestUndoLog::Change& change) {
  const Job& before = change.before;
  const Job& changed = change.changed;
  const auto undo = [&](auto member) {
    if (now.*member == changed.*member) now.*member = before.*member;
  };
  undo(&Job::tag);
  undo(&Job::command);
  undo(&Job::array);
  if (changed.spec != before.spec) now.spec = spec::WithoutChange(*now.spec, *before.spec, *changed.spec);
}

}  // namespace

RequestUndoLog::Handle RequestUndoLog::Begin(Job before, Job changed) {
  auto& of_job = changes_[changed.id];
  return of_job.insert(of_job.end(), {std::move(before), std::move(changed)});
}

void RequestUndoLog::Stored(JobId id, Handle change) {
  const auto of_job = changes_.find(id);
  of_job->second.erase(change);
  if (of_job->second.empty()) changes_.erase(of_job);
}

// Later changes were made on top of this change: their `before` becomes the request without it.
void RequestUndoLog::Refused(JobId id, Handle change, Job* now) {
  for (auto later = std::next(change); later != changes_.at(id).end(); ++later) {
    TakeBack(later->before, *change);
    TakeBack(later->changed, *change);
  }
  if (now) TakeBack(*now, *change);
  Stored(id, change);
}

}  // namespace gpuman::jobs
