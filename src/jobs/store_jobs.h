// All jobs of the store, read at the daemon's start: most of what a start with many jobs costs. Internal to
// the store; throws what SQLiteCpp throws.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "jobs/job.h"
#include "jobs/shared_texts.h"

namespace gpuman::jobs {

// By id. What jobs have in common is there once, and known to `shared`. kCorrupt: a job that cannot be read.
base::Result<std::vector<Job>> ReadJobs(SQLite::Database& db, SharedTexts& shared,
                                        const std::filesystem::path& file);

}  // namespace gpuman::jobs
