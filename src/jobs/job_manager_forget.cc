// Forgets jobs, and deletes their files that are left on the disk.
#include <map>
#include <utility>

#include "base/remove_tree.h"
#include "jobs/job_manager.h"
#include "jobs/retention.h"
#include "keeper/client.h"

namespace gpuman::jobs {

using base::Fail;
using base::Result;

void JobManager::Forget(JobId id) {
  // The job is out of the list while its deletion is on its way: otherwise, of many jobs that end together,
  // each would request the deletion of all jobs before it.
  ended_.erase(id);
  CountAs(entries_.at(id), {});
  entries_.at(id).forgotten_soon = true;
  Batch batch;
  batch.erase = {id};
  // Messages that the disk refused before are sent all the same.
  if (const auto unwritten = dirty_.find(id); unwritten != dirty_.end())
    batch.outbox = unwritten->second.messages;
  auto messages = batch.outbox;
  store_.Submit(std::move(batch), [self = self_, id, messages = std::move(messages)](const Result<>& stored) {
    if (!*self) return;
    JobManager& me = **self;
    if (stored && !messages.empty()) me.callbacks_.on_messages_stored(messages);
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return;
    const auto removals = std::exchange(it->second.removals, {});
    if (!stored) {
      it->second.forgotten_soon = false;
      me.Index(it->second);
      me.Trouble(id, "it could not be removed: " + stored.error().message);
      for (const auto& done : removals) done(Fail(stored.error()));
      return;
    }
    const Job job = it->second.job;
    std::vector<std::filesystem::path> files{JobDirectory(me.options_.jobs_dir, job)};
    const std::filesystem::path log = me.LogPathOf(id);
    files.push_back(log);
    for (std::uint32_t i = 1; i <= me.options_.launch.log_files; ++i)
      files.emplace_back(log.string() + "." + std::to_string(i));
    me.Vanish(id);
    me.DeleteFiles(job.owner->uid, std::move(files));
    for (const auto& done : removals) done(job);
  });
}

void JobManager::Vanish(JobId id) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  if (it->second.link) it->second.link->Stop();
  Unindex(it->second);
  entries_.erase(it);
  if (const auto unwritten = dirty_.find(id); unwritten != dirty_.end()) {
    const auto messages = std::move(unwritten->second.messages);
    dirty_.erase(unwritten);
    if (!messages.empty()) callbacks_.on_messages_stored(messages);
  }
  callbacks_.on_job_forgotten(id);
  AnswerReruns(id);
  CarryOutLater(id);
}

void JobManager::ForgetOldOnes() {
  std::vector<EndedJob> ended;
  ended.reserve(ended_.size());
  for (const JobId id : ended_) {
    const Entry& entry = entries_.at(id);
    ended.push_back(
        {id, entry.counted.user, entry.job.ended_at.value_or(base::WallTime{}), entry.counted.text});
  }
  std::map<uid_t, TextAccount> text;
  for (const auto& [user, totals] : users_)
    if (HasTooManyEnded(user)) text.emplace(user, totals.ended);
  const base::WallTime now = clock_.Wall();
  const RetentionBounds bounds{options_.keep_ended, now - options_.keep_ended_for, options_.text_of_user};
  for (const JobId id : ToForget(ended, bounds, std::move(text), now))
    if (!callbacks_.is_needed(id)) Forget(id);
}

// Deletes the directories that belong to no job: of a request whose commit failed or never happened, or of
// jobs that were removed or released. Directories whose keeper lives stay. Call it before anything is
// created: an id whose commit never happened is given again, and its new job must not find the old directory.
void JobManager::SweepDirectories() {
  std::set<std::filesystem::path> wanted;
  for (const auto& [id, entry] : entries_)
    if (!IsWaiting(entry.job)) wanted.insert(JobDirectory(options_.jobs_dir, entry.job));
  std::vector<std::filesystem::path> unwanted;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, error))
    if (!wanted.contains(item.path())) unwanted.push_back(item.path());
  for (const auto& path : unwanted)
    if (!keeper::KeeperLives(path)) (void)base::RemoveTree(path);
}

void JobManager::DeleteFiles(uid_t user, std::vector<std::filesystem::path> paths) {
  keeper_work_.Add(user, {[paths = std::move(paths)] {
                     // The next start deletes what is left.
                     for (const auto& path : paths) (void)base::RemoveTree(path);
                   }});
}

}  // namespace gpuman::jobs
