// Slurm's part of `gpuman queue`: what this user submitted there from here. Nothing of Slurm's is started
// where that was nothing.
#pragma once

#include <optional>
#include <vector>

#include "api/json.h"
#include "api/queue_client.h"
#include "cli/session.h"
#include "cli/slurm/views.h"

namespace gpuman::cli::slurm {

// Whether a daemon is to be started, where there is none, to show an empty queue: not where jobs go to Slurm.
bool ServesAlone(const Session& session);

// The jobs that the filter chooses; nullopt: none went to Slurm that it could choose. What has ended since is
// written down. That Slurm does not answer is told on the way, and nothing more.
std::optional<std::vector<JobLine>> List(Session& session, const api::QueueFilter& filter);

// A table with a title, `apart` below another one; nothing for no jobs.
void PrintList(Session& session, const std::vector<JobLine>& jobs, bool apart);
api::Json ListJson(const std::vector<JobLine>& jobs);

}  // namespace gpuman::cli::slurm
