#include "daemon/history/module.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>
#include <variant>

#include "daemon/history/job_readings.h"
#include "daemon/sharing/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

history::Key KeyOf(base::JobId job) { return {history::SubjectKind::kJob, std::to_string(job.value)}; }

}  // namespace

ArchiveSettings HistoryModule::Settings() const {
  const Config& config = core_.config();
  // A GPU is reported with each slow reading at least; a reading that is late by a moment is no gap.
  const auto slow = std::chrono::ceil<std::chrono::seconds>(config.sampling.slow);
  return {config.history.disk, config.history.flush, slow.count() + 1};
}

std::int64_t HistoryModule::Second() const { return history::SecondOf(core_.clock().Wall()); }

base::Result<const Archive*> HistoryModule::archive() const {
  using enum base::ErrorCode;
  if (core_.config().history.disk.count == 0)
    return base::Fail(kNotSupported, "this daemon records no history: history.disk is 0 in its configuration",
                      "an administrator sets history.disk, such as \"64MiB\", and reloads gpumand");
  if (archive_ && archive_->is_recording()) return archive_.get();
  if (archive_ && !archive_->problem().empty())
    return base::Fail(kUnavailable, "no history is recorded: " + archive_->problem(),
                      "the daemon's log says more; it tries again when it is reloaded");
  return base::Fail(kUnavailable, "the daemon is reading its history", "try again in a moment");
}

// The rows of jobs that went on when the daemon before ended go on with this one.
void HistoryModule::Restore(jobs::StoreContents& contents) {
  std::set<std::string> going_on;
  for (const auto& job : contents.jobs)
    if (!jobs::IsEnded(job) && !jobs::IsWaiting(job)) going_on.insert(KeyOf(job.id).name);
  archive_ = std::make_unique<Archive>(
      core_.config().state_dir / "history", Settings(),
      [this](auto work) { boost::asio::post(core_.workers(), std::move(work)); },
      [&loop = core_.loop()](auto work) { boost::asio::post(loop, std::move(work)); },
      [going_on = std::move(going_on)](const history::Key& key) {
        return key.kind == history::SubjectKind::kGpu || going_on.contains(key.name);
      });
}

void HistoryModule::Reconfigure() { archive_->SetSettings(Settings()); }

bool HistoryModule::Stop() {
  if (archive_) archive_->Stop(Second());
  return true;
}

void HistoryModule::OnTick() { archive_->OnTick(core_.clock().Mono(), Second()); }

void HistoryModule::OnSample(const gpu::GpuSample& sample) {
  if (const auto reading = ReadingOf(sample))
    archive_->Add({history::SubjectKind::kGpu, sample.uuid}, Second(), *reading);
}

// Once a second; the highest value of a job between two seconds is its peak, which others keep.
void HistoryModule::AfterSamples(const std::set<std::string>& /*gpus*/) {
  const auto second = Second();
  const auto since = second - std::exchange(jobs_recorded_, second);
  if (since == 0) return;
  const auto seconds = std::clamp<std::int64_t>(since, 1, Settings().hold);
  const auto moments = MomentsOf(core_.guard().Statuses());
  const auto waiting = sharing_.Waiting();
  for (const auto* const job : core_.jobs().Active()) {
    JobReading moment = moments.Of(job->id);
    const bool suspended = suspension_.StateOf(*job) == spec::JobState::kSuspended;
    if (suspended)
      moment.state = history::JobActivityState::kSuspended;
    else if (waiting.contains(job->id))
      moment.state = history::JobActivityState::kWaiting;
    auto reading = ReadingOf(moment);
    if (!suspended) utilization_[job->id].Add(second, seconds, reading[history::Metric::kUtilization]);
    if (archive_->is_recording()) archive_->Add(KeyOf(job->id), second, reading);
  }
}

void HistoryModule::OnJobLeft(base::JobId job, UnwatchReason /*why*/) {
  archive_->End(KeyOf(job));
  utilization_.erase(job);
}

void HistoryModule::OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) {
  if (!std::holds_alternative<keeper::RunStarted>(record.body)) return;
  utilization_.insert_or_assign(job.id, RunUtilization(history::SecondOf(record.wall), Settings().hold));
}

void HistoryModule::OnRunEnded(const jobs::Job& job, jobs::RunAccount& run) {
  if (const auto seen = utilization_.extract(job.id)) run.utilization = seen.mapped().Mean(run.ran);
}

}  // namespace gpuman::daemon
