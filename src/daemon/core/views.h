// Makes the API's views of jobs, GPUs and events from what the daemon knows. Pure, but for /proc and the user
// database, which the caller passes as `table` and `user_name`.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "api/types.h"
#include "base/process.h"
#include "daemon/core/list_shortening.h"
#include "guard/guard.h"
#include "jobs/event.h"
#include "jobs/job.h"

namespace gpuman::daemon {

using NameOfUser = std::function<std::string(uid_t)>;
using TagOfJob = std::function<std::optional<std::string>(base::JobId)>;

// `usage`: the guard's figures, for jobs that run. Percentages are shown as bytes of the smallest of the
// job's GPUs.
api::JobView JobViewOf(const jobs::Job& job, const guard::JobUsage& usage, const gpu::Inventory& inventory,
                       const std::filesystem::path& log_path, JobDetail detail = JobDetail::kWhole);
// Returns whether it takes too long for the event loop to write this view as text.
bool IsLong(const api::JobView& view);
// Shortens what is long in the view of a job for a list, but for the command and what the queue shows of it.
void ShortenForList(api::JobView& view);

// nullopt: a whole GPU.
std::optional<api::InstancePart> PartOf(const gpu::Gpu& gpu);
// The view has no health yet.
api::GpuView GpuViewOf(const guard::GpuStatus& status, const base::ProcessTable& table,
                       const NameOfUser& user_name, const TagOfJob& tag_of);

api::EventView EventViewOf(const jobs::Event& event);

// The guard's event in the form in which it is stored; `at` is the wall time of storing.
jobs::Event StoredEvent(const guard::Event& event, base::WallTime at, const TagOfJob& tag_of);

}  // namespace gpuman::daemon
