#include "daemon/core/views.h"

#include <algorithm>

namespace gpuman::daemon {
namespace {

std::vector<std::string> GpusOf(const jobs::Job& job, const gpu::Inventory& inventory) {
  if (!job.gpus.empty() || job.queued) return job.gpus;
  std::vector<std::string> all;
  for (const auto& gpu : gpu::VisibleByDefault(inventory.gpus)) all.push_back(gpu.uuid);
  return all;
}

// nullopt: the size is a percentage, and none of the GPUs is known.
std::optional<base::Bytes> Resolve(const std::optional<base::SizeSpec>& spec,
                                   const std::vector<std::string>& gpus, const gpu::Inventory& inventory) {
  if (!spec) return std::nullopt;
  if (!spec->IsRelative()) return spec->bytes;
  std::optional<base::Bytes> least;
  for (const auto& gpu : inventory.gpus) {
    if (std::find(gpus.begin(), gpus.end(), gpu.uuid) == gpus.end()) continue;
    const auto size = spec->Of(gpu.memory);
    least = least ? std::min(*least, size) : size;
  }
  return least;
}

std::optional<unsigned> PercentOf(const gpu::GpuSample& sample, pid_t pid) {
  const auto& percents = sample.details.process_percent;
  if (!percents) return std::nullopt;
  const auto found = percents->find(pid);
  return found == percents->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

api::JobView JobViewOf(const jobs::Job& job, const guard::JobUsage& usage, const gpu::Inventory& inventory,
                       const std::filesystem::path& log_path, JobDetail detail) {
  api::JobView view;
  view.id = job.id.value;
  view.tag = job.tag;
  view.user = job.owner->user;
  if (job.container) view.kubernetes = {job.container->name_space, job.container->pod, job.container->name};
  view.state = job.state;
  view.reason = job.reason;
  view.reason_detail = job.reason_detail;
  if (job.process && !jobs::IsEnded(job)) view.pid = job.process->pid;
  view.gpus = GpusOf(job, inventory);
  if (detail == JobDetail::kListed) {
    auto listed = ListedCommandOf(jobs::WordsOfUser(job));
    view.command = std::move(listed.words);
    view.cut = listed.shortened;
  } else {
    view.command = jobs::CommandOfUser(job);
  }
  view.directory = *job.directory;
  view.options = *job.spec;
  view.memory.limit = Resolve(job.spec->memory, view.gpus, inventory);
  view.memory.soft = Resolve(job.spec->soft, view.gpus, inventory);
  if (!jobs::IsEnded(job)) view.memory.used = usage.used;
  view.memory.peak =
      usage.peak && job.peak ? std::max(usage.peak, job.peak) : (usage.peak ? usage.peak : job.peak);
  view.exit_code = job.exit_code;
  view.signal = job.signal;
  view.submitted_at = job.submitted_at;
  view.started_at = job.started_at;
  view.ended_at = job.ended_at;
  view.restarts = job.restarts;
  view.log_path = log_path.string();
  view.notes = job.notes;
  return view;
}

bool IsLong(const api::JobView& view) {
  constexpr std::size_t kLong = 64u << 10, kDependency = 40;  // bytes
  std::size_t bytes = view.queue ? view.queue->asked.depends.list.size() * kDependency : 0;
  for (const auto& word : view.command) bytes += word.size() + 1;
  return bytes > kLong;
}

void ShortenForList(api::JobView& view) {
  bool shortened = ShortenText(view.directory);
  if (view.reason_detail) shortened = ShortenText(*view.reason_detail) || shortened;
  if (view.unshimmed) shortened = ShortenElements(*view.unshimmed) || shortened;
  shortened = ShortenTexts(view.notes) || shortened;
  view.cut = view.cut || shortened;
}

std::optional<api::InstancePart> PartOf(const gpu::Gpu& gpu) {
  if (!gpu.mig) return std::nullopt;
  return api::InstancePart{gpu.mig->parent, gpu.mig->gpu_instance, gpu.mig->compute_instance,
                           gpu.mig->profile};
}

api::GpuView GpuViewOf(const guard::GpuStatus& status, const base::ProcessTable& table,
                       const NameOfUser& user_name, const TagOfJob& tag_of) {
  api::GpuView view;
  view.number = gpu::NumberOf(status.gpu);
  view.split = status.gpu.split;
  view.mig = PartOf(status.gpu);
  if (!view.mig) view.index = static_cast<int>(status.gpu.index);
  view.uuid = status.gpu.uuid;
  view.name = status.gpu.name;
  if (status.sample.state != gpu::GpuReachability::kOk) return view;
  if (const auto& memory = status.sample.memory)
    view.memory = api::MemoryView{memory->total, memory->used, memory->free, memory->reserved};
  view.utilization_gpu = status.sample.slow.utilization_gpu;
  view.utilization_memory = status.sample.slow.utilization_memory;
  view.temperature_c = status.sample.slow.temperature_c;
  view.power_w = status.sample.slow.power_w;
  view.fan_percent = status.sample.details.fan_percent;
  view.sm_clock_mhz = status.sample.details.sm_clock_mhz;
  view.memory_clock_mhz = status.sample.details.memory_clock_mhz;
  view.pcie_sent = status.sample.details.pcie_sent;
  view.pcie_received = status.sample.details.pcie_received;
  view.power_limit_w = status.sample.details.power_limit_w;
  view.performance_state = status.sample.details.performance_state;
  view.encoder_percent = status.sample.details.encoder_percent;
  view.decoder_percent = status.sample.details.decoder_percent;
  view.pcie_generation = status.sample.health.pcie_generation;
  view.pcie_lanes = status.sample.health.pcie_lanes;
  for (const auto& process : status.processes) {
    api::ProcessView row;
    row.pid = process.id.pid;
    if (process.uid) row.user = user_name(*process.uid);
    if (!process.name.empty()) row.name = process.name;
    row.memory = process.memory;
    if (process.job) {
      row.job = process.job->value;
      row.tag = tag_of(*process.job);
    }
    auto command = ListedCommandOf(table.CommandLine(process.id.pid));
    row.command = std::move(command.words);
    row.cut = command.shortened;
    row.gpuman = process.ours;
    row.gpu_percent = PercentOf(status.sample, process.id.pid);
    view.processes.push_back(std::move(row));
  }
  return view;
}

api::EventView EventViewOf(const jobs::Event& event) {
  return {event.id, event.at, event.kind, event.job, event.tag, event.gpu, event.message, event.data};
}

jobs::Event StoredEvent(const guard::Event& event, base::WallTime at, const TagOfJob& tag_of) {
  jobs::Event stored;
  stored.at = at;
  stored.kind = event.kind;
  if (event.job) {
    stored.job = event.job->value;
    stored.tag = tag_of(*event.job);
  }
  stored.gpu = event.gpu;
  stored.message = event.message;
  stored.data = event.data;
  if (event.pid) stored.data["pid"] = *event.pid;
  return stored;
}

}  // namespace gpuman::daemon
