#include "daemon/job_requests/attach_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "daemon/job_requests/job_request.h"
#include "spec/option_rules.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// The limit of the job: the smallest of the limit that was asked for, the memory that was allotted, and the
// memory of the smallest GPU.
std::optional<base::SizeSpec> Within(const std::optional<base::SizeSpec>& asked, base::Bytes at_most,
                                     const std::vector<gpu::Gpu>& gpus) {
  for (const auto& gpu : gpus) at_most = std::min(at_most, gpu.memory);
  for (const auto& gpu : gpus)
    if (asked) at_most = std::min(at_most, asked->Of(gpu.memory));
  return base::SizeSpec{at_most};
}

}  // namespace

Result<> MayAttach(const api::AttachRequest& request, uid_t caller, uid_t root_owner) {
  if (caller == 0) return {};
  if (request.uid && *request.uid != static_cast<std::int64_t>(caller))
    return Fail(ErrorCode::kPermissionDenied, "uid: only root makes a job for somebody else");
  if (root_owner != caller)
    return Fail(ErrorCode::kPermissionDenied, fmt::format("process {} is somebody else's", request.pid),
                "attach one of your own, or do it as root");
  return {};
}

Caller OwnerOf(const api::AttachRequest& request, const http::Peer& peer) {
  const uid_t uid = request.uid ? static_cast<uid_t>(*request.uid) : peer.uid;
  return CallerOf({uid, uid == peer.uid ? peer.gid : PrimaryGroupOf(uid), 0});
}

Result<jobs::Job> JobFromAttachRequest(const api::AttachRequest& request, const Caller& owner,
                                       const AttachedProcess& root, const gpu::Inventory& inventory) {
  if (request.at_most && request.at_most->count == 0)
    return Fail(ErrorCode::kInvalidArgument, "at_most: 0 bytes are no limit that a job can have");
  api::RunRequest run;
  run.tag = request.tag;
  run.command = request.command.empty() ? root.command : request.command;
  if (run.command.empty()) run.command = {fmt::format("process {}", request.pid)};
  run.directory = "/";
  run.gpus = request.gpus;
  static_cast<spec::AttachOptions&>(run) = request;
  GPUMAN_TRY(spec::FirstProblemOf([&](const spec::Report& report) { spec::CheckRunOptions(run, report); }));
  GPUMAN_ASSIGN(const auto named, gpu::SelectAll(inventory.gpus, request.gpus));
  if (request.at_most)
    run.memory = Within(request.memory, *request.at_most, named.empty() ? inventory.gpus : named);
  // A soft limit above the allotted memory would never warn.
  if (request.at_most && run.soft)
    run.soft = Within(run.soft, run.memory->bytes, named.empty() ? inventory.gpus : named);
  return JobFromRequest(run, owner, inventory, {});
}

}  // namespace gpuman::daemon
