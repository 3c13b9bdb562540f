// Whose a GPU process is: a job of ours, or none.
//
// A process belongs to a job when one of its ancestors is the job's keeper (a child subreaper, so whatever
// daemonises stays below it); or when it lies in the job's cgroup; or, if it runs as the job's owner, when
// its environment carries the job's key (of a job without a key: its id, and it started after the keeper).
// The last two find what survived a killed keeper. A container of Kubernetes is a job without a keeper: its
// processes are those in its cgroup, however they came there. Below a keeper excepted, a process in a pod is
// of no other job: what runs there chooses its user and its environment. The environment is the process's own
// to write: a process can thereby join a job of its own user, never one of somebody else.
//
// Answers are kept by pid and checked against the start time when a pid newly appears in a GPU's list, so
// resting costs no look into /proc and a reused pid is never taken for its predecessor. Not thread-safe.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/container.h"
#include "base/ids.h"
#include "base/process.h"
#include "gpu/ancestry.h"
#include "gpu/sample.h"

namespace gpuman::gpu {

using base::JobId;

struct JobRoot {
  JobId job;
  base::ProcessId keeper;
  std::filesystem::path cgroup{};  // the job's own, absolute; empty: none
  uid_t owner = 0;
  std::string key{};        // GPUMAN_JOB_KEY of the job's processes; empty: GPUMAN_JOB_ID is looked at
  std::string container{};  // the runtime's id of the container that the job is; then nothing else counts
  friend bool operator==(const JobRoot&, const JobRoot&) = default;
};

// A process on a GPU with what is known of it. A process that had ended before we could look has start time
// 0 and no uid, and belongs to nobody.
struct OwnedProcess {
  base::ProcessId id;
  std::optional<JobId> job{};
  std::optional<uid_t> uid{};
  std::string name{};  // comm
  ProcessKind kind = ProcessKind::kCompute;
  std::optional<base::Bytes> memory{};
  bool ours = false;  // one of gpuman's own
  friend bool operator==(const OwnedProcess&, const OwnedProcess&) = default;
};

// Whose a process is, as far as that could be found out. Not complete: it may be a job's that was not found:
// its ancestors are many, or its environment cannot be read yet. Asked again it gets further.
struct Finding {
  std::optional<JobId> job{};
  bool complete = true;
};

class Attribution {
 public:
  using ContainerOf = std::function<std::optional<base::ProcessContainer>(pid_t)>;

  // `table` must outlive this object.
  explicit Attribution(
      const base::ProcessTable& table,
      ContainerOf container_of = [](pid_t pid) { return base::ReadContainer(pid); })
      : table_(table),
        container_of_(std::move(container_of)),
        own_container_(container_of_(::getpid())),
        ancestry_(table) {}

  // Adds the job or replaces what is known of it (a new keeper). Processes that belonged to nobody are looked
  // at again.
  void SetJob(const JobRoot& root);
  void RemoveJob(JobId job);
  // gpuman's own processes, that now live.
  void SetOurs(std::set<pid_t> ours) { ours_ = std::move(ours); }

  // The processes of a sampling of GPU `uuid`, in its order.
  std::vector<OwnedProcess> Attribute(const std::string& uuid, std::span<const GpuProcess> processes);
  // The job of any process, on a GPU or not; looks into /proc each time, at so many of its ancestors that
  // whoever asks waits for a few milliseconds at most.
  Finding JobOf(pid_t pid) const { return Look(pid, kLooksWhenAsked).finding(); }

  // The GPU is gone, or its sampling failed: its list is no longer a reason to remember a pid.
  void Forget(const std::string& uuid);

 private:
  static constexpr std::size_t kLooksWhenAsked = 256;
  // Of a process on a GPU, which costs its owner more than that.
  static constexpr std::size_t kLooksOnGpu = 4096;

  struct Known {
    base::ProcessId id;
    std::optional<JobId> job;
    std::optional<uid_t> uid;
    std::string name;
    bool complete = true;  // as in Finding
    Finding finding() const { return {job, complete}; }
  };
  Known Look(pid_t pid, std::size_t looks = kLooksOnGpu) const;
  void DropUnlisted(const std::vector<pid_t>& pids);
  Finding FindJob(const base::ProcessInfo& process, std::optional<uid_t> uid, std::size_t looks) const;
  std::optional<JobId> ByContainer(const std::string& container) const;
  std::optional<JobId> ByCgroup(pid_t pid) const;
  Finding ByEnvironment(const base::ProcessInfo& process, std::optional<uid_t> uid) const;

  const base::ProcessTable& table_;
  const ContainerOf container_of_;
  const std::optional<base::ProcessContainer> own_container_;  // gpumand may run in one, with its jobs
  mutable Ancestry ancestry_;  // with the keepers of `jobs_`; remembers what it saw
  std::map<JobId, JobRoot> jobs_;
  std::set<pid_t> ours_;
  std::map<pid_t, Known> known_;                      // of every pid in `listed_`
  std::map<std::string, std::vector<pid_t>> listed_;  // by GPU, sorted: its latest list
};

}  // namespace gpuman::gpu
