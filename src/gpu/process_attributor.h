// Finds the job of a GPU process, if it has one.
//
// A process belongs to a job in one of these cases. One of its ancestors is the job's keeper (a child
// subreaper, so daemons stay below it). Or the process lies in the job's cgroup. Or it runs as the job's
// owner, and its environment carries the job's key (for a job without a key: the job's id, and the process
// started after the keeper). The last two find processes that survived a killed keeper. A container of
// Kubernetes is a job without a keeper: its processes are those in its cgroup, however they came there.
// Unless it is below a keeper, a process in a pod belongs to no other job, since a program there chooses its
// user and its environment. A process can write its own environment: so it can join a job of its own user,
// but never a job of another user.
//
// Answers are kept by pid. They are checked against the start time when a pid newly appears in a GPU's list,
// so an unchanged list costs no read of /proc, and a reused pid is never taken for its predecessor. Not
// thread-safe.
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
#include "gpu/gpu_sample.h"

namespace gpuman::gpu {

using base::JobId;

struct JobRoot {
  JobId job;
  base::ProcessId keeper;
  std::filesystem::path cgroup{};  // the job's own, absolute; empty: it has none
  uid_t owner = 0;
  std::string key{};        // GPUMAN_JOB_KEY of the job's processes; empty: GPUMAN_JOB_ID is used
  std::string container{};  // the runtime's id of the job's container; if set, nothing else counts
  friend bool operator==(const JobRoot&, const JobRoot&) = default;
};

// A process on a GPU and what is known of it. A process that had ended before we could read it has start time
// 0, no uid and no job.
struct AttributedProcess {
  base::ProcessId id;
  std::optional<JobId> job{};
  std::optional<uid_t> uid{};
  std::string name{};  // comm
  ProcessKind kind = ProcessKind::kCompute;
  std::optional<base::Bytes> memory{};
  bool ours = false;  // a process of gpuman
  friend bool operator==(const AttributedProcess&, const AttributedProcess&) = default;
};

// The job of a process, as far as it is known. Not complete: the process may belong to a job that was not
// found, because it has many ancestors or its environment cannot be read yet. The next call gets further.
struct JobLookupResult {
  std::optional<JobId> job{};
  bool complete = true;
};

class ProcessAttributor {
 public:
  using ContainerOf = std::function<std::optional<base::ProcessContainer>(pid_t)>;

  // `table` must outlive this object.
  explicit ProcessAttributor(
      const base::ProcessTable& table,
      ContainerOf container_of = [](pid_t pid) { return base::ReadContainer(pid); })
      : table_(table),
        container_of_(std::move(container_of)),
        own_container_(container_of_(::getpid())),
        ancestry_(table) {}

  // Adds the job, or replaces its description (a new keeper). Looks again at processes without a job.
  void SetJob(const JobRoot& root);
  void RemoveJob(JobId job);
  // Sets the pids of gpuman's own processes that live now.
  void SetOurs(std::set<pid_t> ours) { ours_ = std::move(ours); }

  // The processes of GPU `uuid` from one sample, in its order.
  std::vector<AttributedProcess> Attribute(const std::string& uuid, std::span<const GpuProcess> processes);
  // The job of any process, on a GPU or not. Reads /proc each time, but only so many ancestors that the
  // caller waits for a few milliseconds at most.
  JobLookupResult JobOf(pid_t pid) const { return Resolve(pid, kReadsWhenAsked).lookup(); }

  // Call it when the GPU is gone or its sampling failed: its list is no longer a reason to remember a pid.
  void Forget(const std::string& uuid);

 private:
  static constexpr std::size_t kReadsWhenAsked = 256;
  // For a process on a GPU: to be there costs its owner more than these reads cost the daemon.
  static constexpr std::size_t kReadsOnGpu = 4096;

  struct KnownProcess {
    base::ProcessId id;
    std::optional<JobId> job;
    std::optional<uid_t> uid;
    std::string name;
    bool complete = true;  // as in JobLookupResult
    JobLookupResult lookup() const { return {job, complete}; }
  };
  KnownProcess Resolve(pid_t pid, std::size_t most_reads = kReadsOnGpu) const;
  void DropUnlisted(const std::vector<pid_t>& pids);
  JobLookupResult FindJob(const base::ProcessInfo& process, std::optional<uid_t> uid,
                          std::size_t most_reads) const;
  std::optional<JobId> ByContainer(const std::string& container) const;
  std::optional<JobId> ByCgroup(pid_t pid) const;
  JobLookupResult ByEnvironment(const base::ProcessInfo& process, std::optional<uid_t> uid) const;

  const base::ProcessTable& table_;
  const ContainerOf container_of_;
  const std::optional<base::ProcessContainer> own_container_;  // gpumand may run in one, with its jobs
  mutable Ancestry ancestry_;  // has the keepers of `jobs_`; remembers what it read
  std::map<JobId, JobRoot> jobs_;
  std::set<pid_t> ours_;
  std::map<pid_t, KnownProcess> known_;               // one for each pid in `listed_`
  std::map<std::string, std::vector<pid_t>> listed_;  // by GPU: its latest list, sorted
};

}  // namespace gpuman::gpu
