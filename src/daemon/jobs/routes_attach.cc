// Routes of attached jobs.
#include <fmt/format.h>

#include "api/attach_json.h"
#include "daemon/job_requests/attach_request.h"
#include "daemon/jobs/routes.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;

// A process below a job is under that job's limit. As a job of its own the process would escape that limit.
base::Result<> IsFree(JobsModule& jobs, const base::ProcessId& root, const std::string& tag) {
  const auto known = jobs.core().guard().JobOf(root.pid);
  if (!known.complete)
    return Fail(ErrorCode::kUnavailable, fmt::format("it is not known yet whose process {} is", root.pid),
                "try again in a moment");
  const auto* const job = known.job ? jobs.core().jobs().Find(*known.job) : nullptr;
  if (!job) return {};
  return Fail(ErrorCode::kConflict, fmt::format("process {} belongs to job {} '{}' and cannot be {}",
                                                root.pid, job->id.value, job->tag, tag));
}

// A user must not escape a limit because the name is taken already: then the job that root attaches gets
// another name. A second request for the same process means the same job.
std::string TagFor(JobsModule& jobs, const std::string& wanted, const base::ProcessId& root) {
  for (const auto* const job : jobs.core().jobs().Active())
    if (job->attached && job->keeper == root && job->tag.starts_with(wanted)) return job->tag;
  const auto named = jobs.core().jobs().index().Resolve(wanted);
  const auto* const other = named ? jobs.core().jobs().Find(*named) : nullptr;
  return !other || jobs::IsEnded(*other) ? wanted : fmt::format("{}-{}", wanted, root.pid);
}

api::AttachAnswer AttachedOf(JobsModule& jobs, const jobs::Job& job) {
  api::AttachAnswer attached{job.id.value, job.tag, job.gpus, {}};
  for (const auto& variable : jobs.core().jobs().AttachedEnvironment(job)) {
    const auto sign = variable.find('=');
    attached.environment[variable.substr(0, sign)] = variable.substr(sign + 1);
  }
  return attached;
}

base::Result<> Attach(JobsModule& jobs, const Call<api::AttachRequest, api::AttachAnswer>& call) {
  const api::AttachRequest& wanted = call.body();
  const auto& peer = call.peer();
  const auto process = jobs.core().processes().Find(wanted.pid);
  const auto owner = jobs.core().processes().Owner(wanted.pid);
  if (!process || !owner)
    return Fail(ErrorCode::kNotFound, fmt::format("there is no process {}", wanted.pid));
  GPUMAN_TRY(MayAttach(wanted, peer.uid, *owner));
  GPUMAN_TRY(IsFree(jobs, process->id, wanted.tag));
  const AttachedProcess root{*owner, jobs.core().processes().CommandLine(wanted.pid)};
  GPUMAN_ASSIGN(auto job, JobFromAttachRequest(wanted, OwnerOf(wanted, peer), root, jobs.core().inventory()));
  if (peer.uid == 0) job.tag = TagFor(jobs, job.tag, process->id);
  jobs.core().jobs().Attach(job, process->id, call.After([&jobs](const jobs::Job& attached) {
    return AttachedOf(jobs, attached);
  }));
  return {};
}

}  // namespace

void JobsModule::AddAttachRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kAttach, Attach);
}

}  // namespace gpuman::daemon
