// The routes of the HTTP API, each declared once: its method, its path, who may use it, and the types of
// its body and its answer. The daemon and the clients use these declarations, so both have the same types; a
// test compares them with docs/api/openapi.yaml. Constants; thread-safe.
#pragma once

#include <string_view>

#include "api/attach_types.h"
#include "api/container_types.h"
#include "api/device_types.h"
#include "api/health_types.h"
#include "api/history_types.h"
#include "api/mig_types.h"
#include "api/mps_types.h"
#include "api/queue_types.h"
#include "api/right.h"
#include "api/share_types.h"
#include "api/types.h"

namespace gpuman::api {

// Whether a request that comes while the daemon starts waits until the daemon knows the GPUs.
enum class StartupWaitPolicy { kForGpus, kNever };

enum class BodyNeed { kRequired, kOptional };  // kOptional: an empty body is read as {}

struct NoBody {};
struct Text {};  // an answer that is no JSON

template <typename Body, typename Answer>
struct Route {
  std::string_view method;
  std::string_view path;  // {name} takes one segment
  Right right;
  StartupWaitPolicy wait = StartupWaitPolicy::kForGpus;
  unsigned status = 200;  // of success; a dry run of a submission has 200 as well
  BodyNeed body_need = BodyNeed::kRequired;
};

// A route on the job, or on all tasks of the array, that {ref} names. Whether a caller has the right depends
// on that job.
template <typename Body, typename Answer>
struct JobRoute : Route<Body, Answer> {};

namespace routes {

inline constexpr Route<NoBody, Text> kHealthz{"GET", "/healthz", Right::kAnybody, StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, Text> kMetrics{"GET", "/metrics", Right::kSee};
inline constexpr Route<NoBody, VersionView> kVersion{"GET", "/v1/version", Right::kAnybody,
                                                     StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, WebPageView> kWeb{"GET", "/v1/web", Right::kSee, StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, StatusView> kStatus{"GET", "/v1/status", Right::kSee};
inline constexpr Route<NoBody, EventList> kEvents{"GET", "/v1/events", Right::kSee,
                                                  StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, GpuList> kGpus{"GET", "/v1/gpus", Right::kSee};
inline constexpr Route<NoBody, GpuView> kGpu{"GET", "/v1/gpus/{ref}", Right::kSee};

inline constexpr Route<NoBody, HealthReport> kHealth{"GET", "/v1/health", Right::kSee};
inline constexpr Route<HealthAcknowledgement, HealthReport> kAcknowledgeHealth{
    "POST", "/v1/health/acknowledge", Right::kManage};
inline constexpr Route<NoBody, HistoryView> kHistory{"GET", "/v1/history", Right::kSee};

inline constexpr Route<NoBody, DeviceList> kDevices{"GET", "/v1/devices", Right::kSee};
inline constexpr Route<NoBody, DeviceProfileList> kDeviceProfiles{"GET", "/v1/devices/profiles", Right::kSee};
// Everybody may ask what would be set (dry_run).
inline constexpr Route<DeviceSettingsRequest, DeviceSettingsResult> kChangeDevices{
    "POST", "/v1/devices/settings", Right::kByRequest};
inline constexpr Route<DeviceProfileRequest, DeviceSettingsResult> kChangeDeviceProfile{
    "POST", "/v1/devices/profile", Right::kByRequest};

inline constexpr Route<NoBody, MigReport> kMig{"GET", "/v1/mig", Right::kSee};
inline constexpr Route<MigRequest, MigChanges> kPlanMig{"POST", "/v1/mig/plan", Right::kSee};
inline constexpr Route<MigRequest, MigChanges> kApplyMig{"POST", "/v1/mig/apply", Right::kManage};

inline constexpr Route<NoBody, MpsReport> kMps{"GET", "/v1/mps", Right::kSee};
inline constexpr Route<MpsOrder, MpsReport> kStartMps{"POST", "/v1/mps/start", Right::kManage};
inline constexpr Route<MpsStop, MpsReport> kStopMps{"POST", "/v1/mps/stop", Right::kManage};
inline constexpr Route<MpsOrder, MpsReport> kLimitMps{"POST", "/v1/mps/limit", Right::kManage};
inline constexpr Route<MpsTermination, MpsReport> kTerminateMps{"POST", "/v1/mps/terminate", Right::kManage};

inline constexpr Route<NoBody, ShareView> kShare{"GET", "/v1/share", Right::kSee};
inline constexpr Route<ShareUpdate, ShareView> kSetShare{"PUT", "/v1/share", Right::kManage,
                                                         StartupWaitPolicy::kNever};

inline constexpr Route<NoBody, ContainersView> kContainers{"GET", "/v1/containers", Right::kAnybody,
                                                           StartupWaitPolicy::kNever};
// Waits: before the daemon knows the GPUs, it could take a process of a container for a foreign process.
inline constexpr Route<ContainerTable, ContainersView> kSetContainers{"PUT", "/v1/containers",
                                                                      Right::kManage};

inline constexpr Route<NoBody, JobList> kJobs{"GET", "/v1/jobs", Right::kSee};
inline constexpr Route<RunRequest, JobView> kRun{"POST", "/v1/jobs", Right::kSubmit,
                                                 StartupWaitPolicy::kForGpus, 201};
inline constexpr JobRoute<NoBody, JobView> kJob{
    {"GET", "/v1/jobs/{ref}", Right::kSee, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<JobUpdate, JobView> kUpdateJob{
    {"PATCH", "/v1/jobs/{ref}", Right::kControlJob, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<NoBody, JobView> kRemoveJob{
    {"DELETE", "/v1/jobs/{ref}", Right::kControlJob, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<RunOptionsPatch, JobView> kRestartJob{
    {"POST", "/v1/jobs/{ref}/restart", Right::kControlJob, StartupWaitPolicy::kNever, 200,
     BodyNeed::kOptional}};
inline constexpr JobRoute<NoBody, JobView> kSuspendJob{
    {"POST", "/v1/jobs/{ref}/suspend", Right::kControlJob, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<ResumeOrMoveRequest, JobView> kResumeJob{
    {"POST", "/v1/jobs/{ref}/resume", Right::kControlJob, StartupWaitPolicy::kNever, 200,
     BodyNeed::kOptional}};
inline constexpr JobRoute<ResumeOrMoveRequest, JobView> kMoveJob{
    {"POST", "/v1/jobs/{ref}/move", Right::kControlJob, StartupWaitPolicy::kNever, 200, BodyNeed::kOptional}};
inline constexpr JobRoute<NoBody, JobView> kWaitForJob{
    {"GET", "/v1/jobs/{ref}/wait", Right::kSee, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<NoBody, Text> kJobLog{
    {"GET", "/v1/jobs/{ref}/log", Right::kReadLog, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<NoBody, JobStory> kWhyJob{
    {"GET", "/v1/jobs/{ref}/why", Right::kSee, StartupWaitPolicy::kNever}};
// The process must belong to the caller, unless the caller is root.
inline constexpr Route<AttachRequest, AttachAnswer> kAttach{"POST", "/v1/attachments", Right::kSubmit,
                                                            StartupWaitPolicy::kForGpus, 201};

inline constexpr Route<SubmitRequest, SubmissionAnswer> kSubmit{"POST", "/v1/submissions", Right::kSubmit,
                                                                StartupWaitPolicy::kForGpus, 201};
// The caller also needs control of each of these jobs.
inline constexpr JobRoute<RedoRequest, SubmissionAnswer> kRedoJob{
    {"POST", "/v1/jobs/{ref}/redo", Right::kSubmit, StartupWaitPolicy::kNever, 201, BodyNeed::kOptional}};
inline constexpr JobRoute<NoBody, JobView> kHoldJob{
    {"POST", "/v1/jobs/{ref}/hold", Right::kControlJob, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<NoBody, JobView> kReleaseJob{
    {"POST", "/v1/jobs/{ref}/release", Right::kControlJob, StartupWaitPolicy::kNever}};
inline constexpr JobRoute<NoBody, JobView> kCancelJob{
    {"POST", "/v1/jobs/{ref}/cancel", Right::kControlJob, StartupWaitPolicy::kNever}};
// The daemon checks each job separately: a job that the caller may not end is a row with an error.
inline constexpr Route<CancelRequest, CancelAnswer> kCancelJobs{"POST", "/v1/cancellations",
                                                                Right::kByRequest, StartupWaitPolicy::kNever};

inline constexpr Route<NoBody, JobList> kQueue{"GET", "/v1/queue", Right::kSee};
inline constexpr Route<NoBody, Text> kQueueRows{"GET", "/v1/queue/rows", Right::kSee};
inline constexpr Route<NoBody, QueueInfo> kQueueInfo{"GET", "/v1/queue/info", Right::kSee};
inline constexpr Route<QueueSettingsUpdate, QueueSettings> kSetQueue{"PATCH", "/v1/queue/settings",
                                                                     Right::kManage};

inline constexpr Route<NoBody, ReservationList> kReservations{"GET", "/v1/reservations", Right::kSee};
inline constexpr Route<ReservationRequest, Reservation> kReserve{"POST", "/v1/reservations", Right::kManage,
                                                                 StartupWaitPolicy::kForGpus, 201};
inline constexpr Route<NoBody, Reservation> kCancelReservation{"DELETE", "/v1/reservations/{ref}",
                                                               Right::kManage, StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, QuotaList> kQuotas{"GET", "/v1/quotas", Right::kSee};
inline constexpr Route<NoBody, Quota> kQuota{"GET", "/v1/quotas/{subject}/{name}", Right::kSee,
                                             StartupWaitPolicy::kNever};
inline constexpr Route<QuotaUpdate, Quota> kSetQuota{"PUT", "/v1/quotas/{subject}/{name}", Right::kManage,
                                                     StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, Quota> kRemoveQuota{"DELETE", "/v1/quotas/{subject}/{name}", Right::kManage,
                                                   StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, IgnoreRuleList> kIgnoredProcesses{"GET", "/v1/ignored-processes", Right::kSee};
inline constexpr Route<IgnoreRuleView, IgnoreRuleView> kIgnoreProcess{
    "POST", "/v1/ignored-processes", Right::kManage, StartupWaitPolicy::kForGpus, 201};
inline constexpr Route<NoBody, IgnoreRuleView> kStopIgnoring{"DELETE", "/v1/ignored-processes/{ref}",
                                                             Right::kManage, StartupWaitPolicy::kNever};
inline constexpr Route<NoBody, StatsView> kStats{"GET", "/v1/stats", Right::kSee};

// Calls `visit` with each route.
template <typename Visit>
void ForEach(const Visit& visit) {
  visit(kHealthz);
  visit(kMetrics);
  visit(kVersion);
  visit(kWeb);
  visit(kStatus);
  visit(kEvents);
  visit(kGpus);
  visit(kGpu);
  visit(kHealth);
  visit(kAcknowledgeHealth);
  visit(kHistory);
  visit(kDevices);
  visit(kDeviceProfiles);
  visit(kChangeDevices);
  visit(kChangeDeviceProfile);
  visit(kMig);
  visit(kPlanMig);
  visit(kApplyMig);
  visit(kMps);
  visit(kStartMps);
  visit(kStopMps);
  visit(kLimitMps);
  visit(kTerminateMps);
  visit(kShare);
  visit(kSetShare);
  visit(kContainers);
  visit(kSetContainers);
  visit(kJobs);
  visit(kRun);
  visit(kJob);
  visit(kUpdateJob);
  visit(kRemoveJob);
  visit(kRestartJob);
  visit(kSuspendJob);
  visit(kResumeJob);
  visit(kMoveJob);
  visit(kWaitForJob);
  visit(kJobLog);
  visit(kWhyJob);
  visit(kAttach);
  visit(kSubmit);
  visit(kRedoJob);
  visit(kHoldJob);
  visit(kReleaseJob);
  visit(kCancelJob);
  visit(kCancelJobs);
  visit(kQueue);
  visit(kQueueRows);
  visit(kQueueInfo);
  visit(kSetQueue);
  visit(kReservations);
  visit(kReserve);
  visit(kCancelReservation);
  visit(kQuotas);
  visit(kQuota);
  visit(kSetQuota);
  visit(kRemoveQuota);
  visit(kIgnoredProcesses);
  visit(kIgnoreProcess);
  visit(kStopIgnoring);
  visit(kStats);
}

}  // namespace routes
}  // namespace gpuman::api
