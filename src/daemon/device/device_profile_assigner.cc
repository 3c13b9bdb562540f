#include "daemon/device/device_profile_assigner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuman::daemon {
namespace {

using Here = std::vector<const RunningJob*>;

Here UsersOf(const gpu::Gpu& gpu, const std::vector<RunningJob>& running) {
  Here here;
  for (const auto& job : running) {
    const bool uses =
        job.gpus ? std::find(job.gpus->begin(), job.gpus->end(), gpu.uuid) != job.gpus->end() : !gpu.mig;
    if (uses) here.push_back(&job);
  }
  return here;
}

// Says what else is on the GPU; empty: the job is alone there.
std::string CompanyOf(const RunningJob& job, const Here& here, const guard::GpuStatus* status) {
  for (const auto* other : here)
    if (other->id != job.id) return fmt::format("job {} runs there too", other->id.value);
  if (!status) return {};
  for (const auto& process : status->processes)
    if (!process.job && !process.ours)
      return fmt::format("pid {} ({}) uses it too", process.id.pid, process.name);
  return {};
}

}  // namespace

DeviceProfileAssigner::Decision DeviceProfileAssigner::Follow(
    const std::vector<RunningJob>& running, const gpu::Inventory& inventory,
    const std::map<std::string, guard::GpuStatus>& statuses,
    const std::function<std::optional<std::int64_t>(const std::string&)>& in_force) {
  Decision decision;
  std::map<base::JobId, std::string> not_given;
  std::map<std::string, base::MonoTime> doubted;
  for (const auto& gpu : inventory.gpus) {
    const Here here = UsersOf(gpu, running);
    for (const auto* job : here) {
      if (job->profile.empty()) continue;
      if (gpu.mig) {
        not_given[job->id] = fmt::format(
            "device profile {} is not in force: GPU {} is an instance (MIG), and settings are of the whole "
            "GPU",
            job->profile, gpu::NumberOf(gpu));
        continue;
      }
      const auto known = statuses.find(gpu.uuid);
      const auto* const status = known == statuses.end() ? nullptr : &known->second;
      const auto company = CompanyOf(*job, here, status);
      if (company.empty()) {
        decision.given[gpu.uuid] = {job->id.value, job->profile};
        continue;
      }
      // The owner of a process may become known only after the process was seen, so one sample is not enough.
      const auto seen = status ? status->sample.taken_at : base::MonoTime{};
      const auto first = doubted_.contains(gpu.uuid) ? doubted_.at(gpu.uuid) : seen;
      doubted[gpu.uuid] = first;
      if (first == seen && in_force(gpu.uuid) == job->id.value)
        decision.given[gpu.uuid] = {job->id.value, job->profile};
      else
        not_given[job->id] =
            fmt::format("device profile {} is not in force on GPU {}: {}", job->profile, gpu.index, company);
    }
  }
  for (const auto& [id, why] : not_given)
    if (const auto it = not_given_.find(id); it == not_given_.end() || it->second != why)
      decision.refused[id] = why;
  not_given_ = std::move(not_given);
  doubted_ = std::move(doubted);
  return decision;
}

std::vector<std::string> DeviceProfileAssigner::NotesOf(base::JobId job) const {
  std::vector<std::string> notes;
  for (const auto* why : {&not_given_, &refused_})
    if (const auto it = why->find(job); it != why->end()) notes.push_back(it->second);
  return notes;
}

}  // namespace gpuman::daemon
