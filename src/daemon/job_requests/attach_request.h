// Makes a job from a request to attach a process, or gives the reason why not. Pure, but for OwnerOf, which
// asks the user database.
#pragma once

#include <string>

#include "api/attach_types.h"
#include "base/process.h"
#include "base/result.h"
#include "daemon/core/authorization.h"
#include "gpu/inventory.h"
#include "jobs/job.h"

namespace gpuman::daemon {

// What is known of the process that is to be attached.
struct AttachedProcess {
  uid_t owner = 0;
  std::vector<std::string> command;
};

// kPermissionDenied: the process belongs to another user than the caller, or the job would. Root may attach
// both.
base::Result<> MayAttach(const api::AttachRequest& request, uid_t caller, uid_t root_owner);

// The user to whom the job will belong. The mover that takes the job off its GPU runs as this user, so the
// groups have to be the user's own.
Caller OwnerOf(const api::AttachRequest& request, const http::Peer& peer);

// `owner`: the user to whom the job will belong.
base::Result<jobs::Job> JobFromAttachRequest(const api::AttachRequest& request, const Caller& owner,
                                             const AttachedProcess& root, const gpu::Inventory& inventory);

}  // namespace gpuman::daemon
