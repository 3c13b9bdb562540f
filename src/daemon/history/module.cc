#include "daemon/history/module.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/history/moments.h"
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

std::int64_t HistoryModule::Second() const {
  return std::chrono::floor<std::chrono::seconds>(core_.clock().Wall()).time_since_epoch().count();
}

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
  if (!archive_->is_recording() || second == std::exchange(jobs_recorded_, second)) return;
  const auto moments = MomentsOf(core_.guard().Statuses());
  const auto waiting = sharing_.Waiting();
  for (const auto* const job : core_.jobs().Active()) {
    JobReading moment = moments.Of(job->id);
    if (suspension_.StateOf(*job) == spec::JobState::kSuspended)
      moment.state = history::JobActivityState::kSuspended;
    else if (waiting.contains(job->id))
      moment.state = history::JobActivityState::kWaiting;
    archive_->Add(KeyOf(job->id), second, ReadingOf(moment));
  }
}

void HistoryModule::OnJobLeft(base::JobId job, UnwatchReason /*why*/) { archive_->End(KeyOf(job)); }

}  // namespace gpuman::daemon
