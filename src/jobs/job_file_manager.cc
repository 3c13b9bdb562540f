#include "jobs/job_file_manager.h"

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/own_directory.h"
#include "base/parse_number.h"
#include "base/remove_tree.h"
#include "keeper/client.h"

namespace gpuman::jobs {
namespace {

constexpr std::size_t kOfATurn = 2'000;  // files: as many as a disk removes in about a second

// Deletes until so many files are gone, or all of `paths`. What cannot be deleted stays.
void DeleteSome(std::vector<std::filesystem::path>& paths) {
  for (; !paths.empty(); paths.pop_back())
    if (const auto gone = base::RemoveSomeOfTree(paths.back(), kOfATurn); gone && !*gone) return;
}

}  // namespace

void JobFileManager::DeleteAll(const Job& job) {
  const std::filesystem::path log = LogOf(job.id);
  std::vector<std::filesystem::path> files{DirectoryOf(job), log};
  for (std::uint32_t i = 1; i <= options_.launch.log_files; ++i)
    files.emplace_back(log.string() + "." + std::to_string(i));
  Delete(job.owner->uid, std::move(files));
  if (job.spec->trace_allocations) DeleteTraces(job.owner->uid, TracesOf(job.id));
}

// Somebody else may have made the directory of all traces before gpuman did.
void JobFileManager::DeleteTraces(uid_t user, const std::filesystem::path& traces) {
  if (base::CheckOwnDirectory(traces.parent_path())) Delete(user, {traces});
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
  SweepTraces(jobs);
}

// A daemon that ends may have deleted a part of them. An id that is given later has new traces.
void JobFileManager::SweepTraces(const JobIndex& jobs) {
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(options_.launch.trace_dir, error)) {
    const auto id = base::ParseNumber<std::int64_t>(item.path().filename().string());
    struct stat status {};
    if (!id || JobId{*id} >= jobs.NextId() || jobs.Find({*id}) || ::lstat(item.path().c_str(), &status) != 0)
      continue;
    DeleteTraces(status.st_uid, item.path());
  }
}

void JobFileManager::Delete(uid_t user, std::vector<std::filesystem::path> paths) {
  // Shared with the thread, which changes it before the loop looks at it.
  const auto left = std::make_shared<std::vector<std::filesystem::path>>(std::move(paths));
  removals_.Add(user, {[left] { DeleteSome(*left); },
                       [this, user, left] {
                         if (!left->empty()) Delete(user, std::move(*left));
                       }});
}

}  // namespace gpuman::jobs
