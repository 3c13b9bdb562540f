// Makes jobs of the queue from a client's submission. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/queue_types.h"
#include "base/result.h"
#include "daemon/core/authorization.h"
#include "daemon/queue/memory_choice.h"
#include "gpu/inventory.h"
#include "jobs/job.h"
#include "queue/dependencies.h"
#include "queue/job_spec.h"
#include "spec/job_spec.h"

namespace gpuman::daemon {

// What is needed to read a submission.
struct SubmissionContext {
  const Caller& caller;
  const gpu::Inventory& inventory;
  const std::map<std::string, std::string>& driver_environment;  // as for JobFromRequest
  const jobs::Shared<jobs::ResourceLimits>& resource_limits;
  base::JobId first_id;  // of the first job
  base::WallTime now;
  // Finds the caller's jobs by a reference. References to recent jobs mean jobs before this submission.
  const queue::ReferenceLookup& lookup;
  const MemoryChoiceContext& memory;
};

// The jobs in the order of their ids, an array's tasks one by one. `heads`: where each of the request's jobs
// begins. Nothing is checked against the state of the queue.
struct PreparedSubmission {
  std::vector<jobs::Job> jobs;
  std::vector<std::size_t> heads;
  std::vector<std::string> notes{};  // for the user who submits: each once, and not too many
};

// The error names the job ("jobs[3].gpus.devices: …") where the request has several.
base::Result<PreparedSubmission> Prepare(const api::SubmitRequest& submitted,
                                         const SubmissionContext& context);

// The place in an array, as the queue sees it.
std::optional<spec::ArrayTask> ArrayOf(const jobs::Job& job);

// Jobs, each task of an array counted.
std::size_t CountJobs(const api::SubmitRequest& submitted);

// The memory that the text of these jobs takes at most: each task of an array has a command of its own.
base::Bytes TextOf(const api::SubmitRequest& submitted);

// The same in pieces, for a large request. The arguments of the constructor and the objects that `context`
// refers to must outlive this object. No other jobs may have the ids from `first_id` on. Not thread-safe.
class SubmissionPreparer {
 public:
  SubmissionPreparer(const api::SubmitRequest& submitted, const SubmissionContext& context);
  // Prepares at most `most` more jobs; each task of an array counts. False: no jobs are left.
  base::Result<bool> Continue(std::size_t most);
  // To be called when no jobs are left.
  PreparedSubmission Take();

 private:
  base::Result<> One(const api::Submission& asked);
  void AddNote(std::string note);
  void SomeTasks(std::size_t end);
  base::Result<> CountDependencies(const api::Submission& asked, const spec::Dependencies& depends);
  // The caller's jobs with those of this submission in front, the newest first.
  std::vector<base::JobId> Find(const queue::Reference& reference) const;

  const api::SubmitRequest& submitted_;
  SubmissionContext context_;
  jobs::Environment common_;
  queue::ReferenceLookup lookup_;
  std::size_t at_ = 0;
  // The array whose tasks are being made; nullopt: none.
  struct Tasks {
    const api::ArrayRequest& array;
    jobs::Job task;  // the next one
    base::JobId head;
    std::size_t range = 0;
    std::int64_t index = 0;
  };
  std::optional<Tasks> tasks_;
  std::size_t dependencies_ = 0;  // of all its jobs
  std::vector<base::JobId> heads_;
  std::unordered_map<std::string, base::JobId> named_;  // the last head of each name
  PreparedSubmission prepared_;
  std::size_t left_out_ = 0;  // notes
};

// CheckSharing for the devices that the spec names. If it names none, the queue gives the job no device that
// cannot be shared.
base::Result<> CheckQueuedSharing(const spec::JobSpec& spec, const gpu::Inventory& inventory);
base::Result<spec::GpuRequest> GpusOf(const spec::GpuRequest& asked, const gpu::Inventory& inventory);
// Sets the options that follow from others. A warning has a signal (USR1) and a time (one minute before the
// time limit), and there is none without a time limit; of a group one job runs at a time, unless the request
// says how many.
void CompleteOptions(spec::JobOptions& options);
// Sets memory_on_each by the GPUs that fit the request; kInvalidArgument: the soft limit is above the hard
// one.
base::Result<> CountMemory(spec::JobSpec& spec, const gpu::Inventory& inventory);
// A command that runs the text of a script with the interpreter that its first line names.
std::vector<std::string> CommandOfScript(const std::string& script,
                                         const std::vector<std::string>& arguments);

}  // namespace gpuman::daemon
