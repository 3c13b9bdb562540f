#include "jobs/job_file_manager.h"

#include <cstdint>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/own_directory.h"
#include "base/remove_tree.h"
#include "keeper/client.h"

namespace gpuman::jobs {

void JobFileManager::DeleteAll(const Job& job) {
  const std::filesystem::path log = LogOf(job.id);
  std::vector<std::filesystem::path> files{DirectoryOf(job), log};
  for (std::uint32_t i = 1; i <= options_.launch.log_files; ++i)
    files.emplace_back(log.string() + "." + std::to_string(i));
  Delete(job.owner->uid, std::move(files));
  if (job.spec->trace_allocations) DeleteTraces(job);
}

// Somebody else may have made the directory of all traces before gpuman did.
void JobFileManager::DeleteTraces(const Job& job) {
  workers_.Add(job.owner->uid, {[path = TracesOf(job.id)] {
                 if (base::CheckOwnDirectory(path.parent_path())) (void)base::RemoveTree(path);
               }});
}

void JobFileManager::Sweep(const JobIndex& jobs) {
  std::set<std::filesystem::path> wanted;
  for (const Job* job = jobs.After({0}); job; job = jobs.After(job->id))
    if (!IsWaiting(*job)) wanted.insert(DirectoryOf(*job));
  std::vector<std::filesystem::path> unwanted;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, error))
    if (!wanted.contains(item.path())) unwanted.push_back(item.path());
  for (const auto& path : unwanted)
    if (!keeper::KeeperLives(path)) (void)base::RemoveTree(path);
}

void JobFileManager::Delete(uid_t user, std::vector<std::filesystem::path> paths) {
  workers_.Add(user, {[paths = std::move(paths)] {
                 for (const auto& path : paths) (void)base::RemoveTree(path);
               }});
}

}  // namespace gpuman::jobs
