// New attached jobs, and what happens to them.
#include <fmt/format.h>

#include <utility>

#include "base/boot.h"
#include "jobs/job_manager.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

AttachedJobManager::Callbacks JobManager::AttachmentCallbacks() {
  return {
      [this](JobId id) { TellChanged(index_.At(id)); },
      [this](JobId id, bool another_boot) {
        ApplyEvent(id, RootEnded{another_boot, clock_.Wall()});
      },
      [this](JobId id, const std::string& what) { ReportError(id, what); },
      [this](JobId id, int signal, TreeSignals::Done done) { return Signal(id, signal, std::move(done)); }};
}

void JobManager::Attach(Job job, base::ProcessId root, Done<Job> done) {
  for (const JobId id : index_.active_ids()) {
    const Job& other = index_.At(id);
    if (!other.attached || other.keeper != root) continue;
    if (other.tag == job.tag && other.owner->uid == job.owner->uid)
      return AnswerOnceStored(id, std::move(done));
    return done(Fail(ErrorCode::kConflict, fmt::format("process {} is attached to job {} '{}' already",
                                                       root.pid, id.value, other.tag)));
  }
  if (auto tag_is_free = index_.TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  if (!base::IsAlive(root))
    return done(Fail(ErrorCode::kNotFound, fmt::format("there is no process {}", root.pid)));
  job.environment = Variables{{keeper::kKeyVariable, keeper::MakeKey()}};
  job.process = root;
  job.keeper = root;
  job.gated = callbacks_.wants_gate(job);
  BeginAttached(std::move(job), fmt::format("attached to process {}", root.pid), std::move(done));
}

// A second request may come before the first answer.
void JobManager::AnswerOnceStored(JobId id, Done<Job> done) {
  store_.Submit(Batch{}, self_.Bind([id, done = std::move(done)](JobManager& me, const Result<>&) {
    const Job* const job = me.Find(id);
    if (!job) return done(Fail(NoSuchJob(id)));
    done(*job);
  }));
}

void JobManager::AttachContainer(Job job, Done<Job> done) {
  for (const JobId id : index_.active_ids())
    if (const Job& other = index_.At(id); other.container && other.container->id == job.container->id)
      return done(Fail(ErrorCode::kAlreadyExists, fmt::format("the container is job {} already", id.value)));
  if (auto tag_is_free = index_.TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  job.process = attachments_.OldestIn(job);
  if (!job.process) return done(Fail(ErrorCode::kNotFound, "nothing runs in the container"));
  job.keeper = base::ProcessId{};
  auto how = fmt::format("container {} of pod {} in {}", job.container->name, job.container->pod,
                         job.container->name_space);
  BeginAttached(std::move(job), std::move(how), std::move(done));
}

void JobManager::BeginAttached(Job job, std::string how, Done<Job> done) {
  job.id = index_.Reserve();
  job.attached = true;
  job.submitted_at = clock_.Wall();
  job.started_at = job.submitted_at;
  job.state = JobState::kRunning;
  job.boot_id = base::BootId();
  job.runs = 1;
  parts_.Share(job);
  const Job& added = index_.Add(std::move(job));
  const JobNotice notice{"job_started", std::move(how), {{"pid", added.process->pid}}};
  Batch batch;
  batch.put = {added};
  auto messages = callbacks_.messages_about(added, {notice});
  batch.outbox = messages;
  auto on_stored = self_.Bind([id = added.id, notice, messages = std::move(messages), done = std::move(done)](
                                  JobManager& me, const Result<>& stored) {
    const Job* const begun = me.Find(id);
    if (!begun) return done(Fail(NoSuchJob(id)));
    if (!stored) {
      me.index_.Erase(id);
      me.callbacks_.on_job_forgotten(id);
      me.waiters_.AnswerRemovals(id, Fail(stored.error()));
      return done(Fail(stored.error()));
    }
    if (!messages.empty()) me.callbacks_.on_messages_stored(messages);
    me.callbacks_.on_notice(*begun, notice);
    me.WatchAttached(*begun);
    done(*begun);
    me.ForgetOldOnes();
  });
  store_.Submit(std::move(batch), std::move(on_stored));
}

void JobManager::WatchAttached(const Job& job) {
  runtimes_[job.id] = {clock_.Mono(), AttachedJobManager::KeyOf(job)};
  attachments_.Watch(job.id);
}

}  // namespace gpuman::jobs
