// Slurm's part of `gpuman queue`: the jobs that this user submitted to Slurm from here. It starts no program
// of Slurm where there are no such jobs.
#pragma once

#include <optional>
#include <vector>

#include "api/json.h"
#include "api/queue_client.h"
#include "cli/compat/slurm/views.h"
#include "cli/session.h"

namespace gpuman::cli::slurm {

// Whether the list needs no daemon: where the user submitted jobs to Slurm, gpuman starts no daemon only to
// show an empty queue.
bool ServesAlone(const Session& session);

// The jobs that the filter chooses; nullopt: no job that it could choose went to Slurm. Records jobs that
// have ended. Only prints a note when Slurm does not answer.
std::optional<std::vector<JobLine>> List(Session& session, const api::QueueFilter& filter);

// Prints a table with a title; with `apart`, an empty line above it. Prints nothing if there are no jobs.
void PrintList(Session& session, const std::vector<JobLine>& jobs, bool apart);
api::Json ListJson(const std::vector<JobLine>& jobs);

}  // namespace gpuman::cli::slurm
