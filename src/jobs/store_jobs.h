// Reads all jobs of the store at the daemon's start; with many jobs this takes most of the time of a start.
// Internal to the store; throws the exceptions of SQLiteCpp.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "jobs/job.h"
#include "jobs/shared_text_table.h"

namespace gpuman::jobs {

// Returns all jobs, by id. Values that jobs have in common exist once, and `shared` knows them. kCorrupt: a
// job cannot be read.
base::Result<std::vector<Job>> ReadJobs(SQLite::Database& db, SharedTextTable& shared,
                                        const std::filesystem::path& file);

}  // namespace gpuman::jobs
