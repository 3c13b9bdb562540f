// Every family of metrics that gpuman exports, in the order of /metrics. docs/metrics.md describes them; a
// test compares the table with that page, the dashboard and the alert rules.
//
// gpuman's own names follow Prometheus' conventions: they use base units, and counters end in _total. Names
// that begin with DCGM_ are those of dcgm-exporter, with its units (MiB, percent, millijoules). Counters of
// dcgm-exporter do not end in _total, so they are untyped here.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace gpuman::metrics {

enum class Type { kGauge, kCounter, kHistogram, kUntyped };

std::string_view ToString(Type type);

struct Family {
  std::string_view name;
  Type type = Type::kGauge;
  std::string_view help;
};

// clang-format off
#define GPUMAN_METRIC_FAMILIES(X) \
  X(kDcgmSmClock, "DCGM_FI_DEV_SM_CLOCK", kGauge, "Clock of the multiprocessors in MHz.") \
  X(kDcgmMemClock, "DCGM_FI_DEV_MEM_CLOCK", kGauge, "Clock of the memory in MHz.") \
  X(kDcgmMemoryTemp, "DCGM_FI_DEV_MEMORY_TEMP", kGauge, "Temperature of the memory in degrees Celsius.") \
  X(kDcgmGpuTemp, "DCGM_FI_DEV_GPU_TEMP", kGauge, "Temperature of the GPU in degrees Celsius.") \
  X(kDcgmPowerUsage, "DCGM_FI_DEV_POWER_USAGE", kGauge, "Power drawn in watts.") \
  X(kDcgmEnergy, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kUntyped, "Energy used since the driver was loaded in millijoules.") \
  X(kDcgmPcieReplay, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", kUntyped, "Transfers over PCIe that were repeated.") \
  X(kDcgmGpuUtil, "DCGM_FI_DEV_GPU_UTIL", kGauge, "Percent of the time in which something ran on the GPU.") \
  X(kDcgmMemCopyUtil, "DCGM_FI_DEV_MEM_COPY_UTIL", kGauge, "Percent of the time in which memory was read or written.") \
  X(kDcgmEncUtil, "DCGM_FI_DEV_ENC_UTIL", kGauge, "Percent of the time in which the video encoder worked.") \
  X(kDcgmDecUtil, "DCGM_FI_DEV_DEC_UTIL", kGauge, "Percent of the time in which the video decoder worked.") \
  X(kDcgmXidErrors, "DCGM_FI_DEV_XID_ERRORS", kGauge, "Number of the last error (Xid) that the driver told, 0 before the first.") \
  X(kDcgmFbFree, "DCGM_FI_DEV_FB_FREE", kGauge, "Device memory that is free in MiB.") \
  X(kDcgmFbUsed, "DCGM_FI_DEV_FB_USED", kGauge, "Device memory that programs use in MiB.") \
  X(kDcgmFbReserved, "DCGM_FI_DEV_FB_RESERVED", kGauge, "Device memory that driver and firmware keep in MiB.") \
  X(kDcgmSbeVolatile, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", kUntyped, "Memory errors corrected since the driver was loaded.") \
  X(kDcgmDbeVolatile, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", kUntyped, "Memory errors not corrected since the driver was loaded.") \
  X(kDcgmSbeAggregate, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", kUntyped, "Memory errors corrected in the life of the GPU.") \
  X(kDcgmDbeAggregate, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", kUntyped, "Memory errors not corrected in the life of the GPU.") \
  X(kDcgmRetiredPending, "DCGM_FI_DEV_RETIRED_PENDING", kGauge, "1 where pages of memory are retired with the next reset.") \
  X(kDcgmUncorrectableRows, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", kUntyped, "Rows of memory replaced after errors that were not corrected.") \
  X(kDcgmCorrectableRows, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", kUntyped, "Rows of memory replaced after errors that were corrected.") \
  X(kDcgmRowRemapFailure, "DCGM_FI_DEV_ROW_REMAP_FAILURE", kGauge, "1 where a broken row of memory could not be replaced.") \
  X(kGpuInfo, "gpuman_gpu_info", kGauge, "1 for each GPU, with what names it.") \
  X(kGpuUp, "gpuman_gpu_up", kGauge, "1 where the driver answers about the GPU, 0 where it is lost or silent.") \
  X(kGpuHealthState, "gpuman_gpu_health_state", kGauge, "1 for the state that the health of the GPU is in, 0 for the others.") \
  X(kGpuFault, "gpuman_gpu_fault", kGauge, "1 for each fault of the GPU that nobody has acknowledged.") \
  X(kGpuDrained, "gpuman_gpu_drained", kGauge, "1 where an operator lets nothing new start on the GPU.") \
  X(kGpuXids, "gpuman_gpu_xid_errors_total", kCounter, "Errors (Xids) of the driver since the daemon began, by number.") \
  X(kGpuUtilization, "gpuman_gpu_utilization_ratio", kGauge, "Part of the time in which something ran on the GPU.") \
  X(kGpuTemperature, "gpuman_gpu_temperature_celsius", kGauge, "Temperature of the GPU.") \
  X(kGpuPower, "gpuman_gpu_power_watts", kGauge, "Power drawn.") \
  X(kGpuEnergy, "gpuman_gpu_energy_joules_total", kCounter, "Energy used since the driver was loaded.") \
  X(kGpuEnergyPart, "gpuman_gpu_energy_part_joules_total", kCounter, "Energy of the GPU since gpuman keeps an account of it, by whose it is: jobs, idle, others.") \
  X(kGpuSmClock, "gpuman_gpu_sm_clock_hertz", kGauge, "Clock of the multiprocessors.") \
  X(kGpuMemoryClock, "gpuman_gpu_memory_clock_hertz", kGauge, "Clock of the memory.") \
  X(kGpuSlowed, "gpuman_gpu_hardware_slowdown", kGauge, "1 while temperature or power make the hardware slow the GPU down.") \
  X(kGpuPcieTransmit, "gpuman_gpu_pcie_transmit_bytes_per_second", kGauge, "Sent by the GPU over PCIe.") \
  X(kGpuPcieReceive, "gpuman_gpu_pcie_receive_bytes_per_second", kGauge, "Received by the GPU over PCIe.") \
  X(kGpuMemoryTotal, "gpuman_gpu_memory_total_bytes", kGauge, "Memory of the GPU.") \
  X(kGpuMemoryUsed, "gpuman_gpu_memory_used_bytes", kGauge, "Device memory that programs use.") \
  X(kGpuMemoryFree, "gpuman_gpu_memory_free_bytes", kGauge, "Device memory that is free.") \
  X(kGpuMemoryReserved, "gpuman_gpu_memory_reserved_bytes", kGauge, "Device memory that driver and firmware keep.") \
  X(kGpuReserve, "gpuman_gpu_guard_reserve_bytes", kGauge, "Device memory that the guard keeps free.") \
  X(kGpuProcesses, "gpuman_gpu_processes", kGauge, "Processes on the GPU.") \
  X(kUnmanagedUsed, "gpuman_unmanaged_memory_used_bytes", kGauge, "Device memory of processes that are of no job, by user.") \
  X(kIdleUsed, "gpuman_unmanaged_idle_memory_bytes", kGauge, "Of that, held by processes that have left the GPU idle for queue.hoarder_idle.") \
  X(kMoversUsed, "gpuman_mover_memory_bytes", kGauge, "Device memory of gpuman's own processes, which hold what jobs hand over.") \
  X(kJobInfo, "gpuman_job_info", kGauge, "1 for each job that was started and has not ended, with its state.") \
  X(kJobUsed, "gpuman_job_memory_used_bytes", kGauge, "Device memory of the job on one GPU.") \
  X(kJobPeak, "gpuman_job_memory_peak_bytes", kGauge, "The most that the run of the job had on one of its GPUs.") \
  X(kJobLimit, "gpuman_job_memory_limit_bytes", kGauge, "Hard limit of the job on one GPU.") \
  X(kJobSoft, "gpuman_job_memory_soft_limit_bytes", kGauge, "Soft limit of the job on one GPU.") \
  X(kJobRefused, "gpuman_job_refused_allocations_total", kCounter, "Allocations that were refused to programs of the job's present run on one GPU, as they tell.") \
  X(kJobHost, "gpuman_job_host_memory_bytes", kGauge, "Memory of the host that holds what the job had on its GPUs.") \
  X(kJobRestarts, "gpuman_job_restarts_total", kCounter, "Runs of the job after its first.") \
  X(kJobEnergy, "gpuman_job_energy_joules_total", kCounter, "Energy that the present run of the job has used of its GPUs.") \
  X(kUserJobs, "gpuman_user_jobs", kGauge, "Jobs of the user that were started and have not ended.") \
  X(kUserUsed, "gpuman_user_memory_used_bytes", kGauge, "Device memory of all jobs of the user on all GPUs.") \
  X(kUserPeak, "gpuman_user_memory_peak_bytes", kGauge, "The peaks of these jobs added up.") \
  X(kUserLimit, "gpuman_user_memory_limit_bytes", kGauge, "The hard limits of these jobs added up, of those that have one.") \
  X(kProjectJobs, "gpuman_project_jobs", kGauge, "Jobs of the project that were started and have not ended.") \
  X(kProjectUsed, "gpuman_project_memory_used_bytes", kGauge, "Device memory of all jobs of the project on all GPUs.") \
  X(kProjectPeak, "gpuman_project_memory_peak_bytes", kGauge, "The peaks of these jobs added up.") \
  X(kProjectLimit, "gpuman_project_memory_limit_bytes", kGauge, "The hard limits of these jobs added up, of those that have one.") \
  X(kLimitHits, "gpuman_limit_hits_total", kCounter, "Times that a job passed its soft limit, or was ended at its hard one, since the daemon began.") \
  X(kJobsStarted, "gpuman_jobs_started_total", kCounter, "Runs that began since the daemon began.") \
  X(kJobsEnded, "gpuman_jobs_ended_total", kCounter, "Jobs that ended since the daemon began, by the state they ended in.") \
  X(kJobs, "gpuman_jobs", kGauge, "Jobs that have not ended, by state.") \
  X(kQueueJobs, "gpuman_queue_jobs", kGauge, "Jobs that wait, by what they wait for.") \
  X(kQueuePaused, "gpuman_queue_paused", kGauge, "1 while the queue starts nothing.") \
  X(kQueueWait, "gpuman_queue_wait_seconds", kHistogram, "From the submission to the first start of a job of the queue.") \
  X(kQueueOldest, "gpuman_queue_oldest_wait_seconds", kGauge, "How long the first of the jobs has waited that are not held and wait for no other job and no time.") \
  X(kShareTenants, "gpuman_share_jobs", kGauge, "Jobs that share the GPU, by whether they are in the run set.") \
  X(kShareContended, "gpuman_share_contended", kGauge, "1 where not all jobs that share the GPU fit, so that they take turns.") \
  X(kShareMoved, "gpuman_share_moved_bytes_total", kCounter, "Moved off the GPU and back onto it for hand-overs.") \
  X(kShareCopied, "gpuman_share_copied_bytes_total", kCounter, "Of that, what had to be copied: the rest was there already, or zeros.") \
  X(kShareHandOver, "gpuman_share_hand_over_seconds", kHistogram, "From the order to make room until the next job has its turn.") \
  X(kShareMoving, "gpuman_share_moving_ratio", kGauge, "Part of the contended time that went into hand-overs.") \
  X(kShareComputeAsked, "gpuman_share_compute_asked_ratio", kGauge, "Part of the GPU's time that the job asked for.") \
  X(kShareComputePart, "gpuman_share_compute_part_ratio", kGauge, "Part of the GPU's time that the job has, where turns go by shares.") \
  X(kShareComputeHad, "gpuman_share_compute_had_ratio", kGauge, "Part of the GPU's time that the job had in the last ten seconds.") \
  X(kShareLatency, "gpuman_share_latency", kGauge, "1 for a job whose work goes first.") \
  X(kShareHeldOthers, "gpuman_share_held_others_seconds_total", kCounter, "Time in which other jobs stood still while the job had work that goes first.") \
  X(kShareLongestUnit, "gpuman_share_longest_unit_seconds", kGauge, "How long the job's work stayed on the GPU at most after its turn, of the last turns.") \
  X(kShareMovingSeconds, "gpuman_share_moving_seconds_total", kCounter, "Time that went into hand-overs.") \
  X(kRestSeconds, "gpuman_rest_seconds", kHistogram, "From the order to come to rest until no process of the job worked on a GPU, where it did.") \
  X(kRestAttempts, "gpuman_rest_attempts_total", kCounter, "Orders to jobs to come to rest since the daemon began, by result.") \
  X(kRestCalls, "gpuman_rest_steps_total", kCounter, "Calls that were let through so that processes that wait for each other come to rest.") \
  X(kSuspensions, "gpuman_suspensions_total", kCounter, "Times that a job left its GPUs (out), came back, or was moved to others, since the daemon began.") \
  X(kSuspendedBytes, "gpuman_suspension_moved_bytes_total", kCounter, "Device memory that suspensions took off the GPUs since the daemon began.") \
  X(kLeft, "gpuman_left_bytes", kGauge, "Device memory of suspended jobs that stays on the GPU: contexts, and memory that processes share.") \
  X(kKept, "gpuman_kept_host_memory_bytes", kGauge, "Host memory of copies that are kept of memory that is on a GPU again.") \
  X(kIdleJobs, "gpuman_idle_jobs", kGauge, "Jobs that make no GPU call: those that may leave their GPUs when others need room, and those that are away for it.") \
  X(kGpuHourPrice, "gpuman_cost_gpu_hour", kGauge, "Price of an hour of one GPU, where one is set.") \
  X(kKwhPrice, "gpuman_cost_kwh", kGauge, "Price of a kilowatt-hour, where one is set.") \
  X(kNotificationsPending, "gpuman_notifications_pending", kGauge, "Notifications that are not delivered yet.") \
  X(kNotificationsFailed, "gpuman_notifications_failed", kGauge, "Notifications that were given up and are still kept.") \
  X(kEvents, "gpuman_events_total", kCounter, "Events since the daemon began, by kind.") \
  X(kBuildInfo, "gpuman_build_info", kGauge, "1, with the version of the daemon.") \
  X(kRounds, "gpuman_sampler_round_seconds", kHistogram, "Time of the driver calls that one look at one GPU takes.") \
  X(kScrapes, "gpuman_scrapes_total", kCounter, "Answers of /metrics, this one included.") \
  X(kScrapeTime, "gpuman_scrape_render_seconds_total", kCounter, "Time that the answers before this one took to make.") \
  X(kProcessCpu, "process_cpu_seconds_total", kCounter, "Processor time of the daemon.") \
  X(kProcessResident, "process_resident_memory_bytes", kGauge, "Resident memory of the daemon.") \
  X(kProcessVirtual, "process_virtual_memory_bytes", kGauge, "Virtual memory of the daemon.") \
  X(kProcessFds, "process_open_fds", kGauge, "Open file descriptors of the daemon.") \
  X(kProcessStart, "process_start_time_seconds", kGauge, "When the daemon was started, in seconds since 1970.")
// clang-format on

enum class MetricId : std::size_t {
#define GPUMAN_METRIC_ENTRY(id, name, type, help) id,
  GPUMAN_METRIC_FAMILIES(GPUMAN_METRIC_ENTRY)
#undef GPUMAN_METRIC_ENTRY
};

inline constexpr std::array kFamilies{
#define GPUMAN_METRIC_ENTRY(id, name, type, help) Family{name, Type::type, help},
    GPUMAN_METRIC_FAMILIES(GPUMAN_METRIC_ENTRY)
#undef GPUMAN_METRIC_ENTRY
};
inline constexpr std::size_t kFamilyCount = kFamilies.size();

constexpr const Family& FamilyOf(MetricId metric) { return kFamilies[static_cast<std::size_t>(metric)]; }

}  // namespace gpuman::metrics
