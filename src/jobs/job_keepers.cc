#include "jobs/job_keepers.h"

#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

namespace gpuman::jobs {
namespace {

keeper::UpdateSettings SettingsOf(const Job& job) {
  keeper::UpdateSettings settings;
  settings.restart = keeper::RestartPolicy{};
  settings.restart->mode = job.spec->restart;
  settings.stop_grace = job.spec->grace;
  if (job.queued) settings.time_limit = job.spec->time_limit.value_or(base::Millis{0});
  return settings;
}

// Settings as this version writes them: an older keeper wrote the same fields in another order.
std::string AsWrittenHere(const std::string& settings) {
  const auto parsed = keeper::ParseSettings(settings);
  return parsed ? keeper::SerializeSettings(*parsed) : settings;
}

}  // namespace

using base::ErrorCode;
using base::Fail;
using base::Result;

JobKeepers::JobKeepers(boost::asio::io_context& loop, base::FairTaskExecutor& workers, const JobIndex& jobs,
                       const JobManagerOptions& options, Callbacks callbacks)
    : loop_(loop), workers_(workers), jobs_(jobs), options_(options), callbacks_(std::move(callbacks)) {}

JobKeepers::~JobKeepers() {
  for (const auto& [id, keeper] : keepers_) keeper.link->Stop();
}

JobKeepers::Keeper* JobKeepers::Find(JobId id) {
  const auto it = keepers_.find(id);
  return it == keepers_.end() ? nullptr : &it->second;
}

const JobKeepers::Keeper* JobKeepers::Find(JobId id) const {
  const auto it = keepers_.find(id);
  return it == keepers_.end() ? nullptr : &it->second;
}

std::shared_ptr<KeeperLink> JobKeepers::MakeLink(const Job& job) {
  const JobId id = job.id;
  // Callbacks of a link of an earlier incarnation are ignored.
  const auto of_incarnation = [this, id, incarnation = job.incarnation](auto act) {
    return self_.Bind([id, incarnation, act](JobKeepers& me, const auto&... given) {
      const Job* const now = me.jobs_.Find(id);
      if (now && now->incarnation == incarnation) act(me, given...);
    });
  };
  KeeperLink::Callbacks callbacks;
  callbacks.on_record =
      of_incarnation([id](JobKeepers& me, const keeper::JournalRecord& record) { me.OnRecord(id, record); });
  callbacks.on_connected = of_incarnation([id](JobKeepers& me) { me.callbacks_.on_connected(id); });
  callbacks.on_failed =
      of_incarnation([id](JobKeepers& me, const base::Error& error) { me.callbacks_.on_failed(id, error); });
  callbacks.on_error =
      of_incarnation([id](JobKeepers& me, const std::string& what) { me.callbacks_.on_error(id, what); });
  const auto in_turn = self_.Bind([user = job.owner->uid](JobKeepers& me, const std::function<void()>& work) {
    me.workers_.Add(user, {work});
  });
  return std::make_shared<KeeperLink>(loop_, in_turn, options_.keeper_program,
                                      JobDirectory(options_.jobs_dir, job), job.journal_seq,
                                      std::move(callbacks));
}

void JobKeepers::OnRecord(JobId id, const keeper::JournalRecord& record) {
  if (Keeper* const keeper = Find(id)) {
    if (std::holds_alternative<keeper::StopOrdered>(record.body)) keeper->stop_in_journal = true;
    if (const auto* const changed = std::get_if<keeper::JobSettingsChanged>(&record.body))
      keeper->settings_in_journal = AsWrittenHere(changed->settings);
  }
  callbacks_.on_record(id, record);
}

void JobKeepers::Prepare(const Job& job, const LaunchSettings& settings) {
  Stop(job.id);
  auto link = MakeLink(job);
  link->Prepare(PlanLaunch(job, settings));
  keepers_.emplace(job.id, Keeper{std::move(link), false, {}, {}});
}

void JobKeepers::Start(JobId id) {
  if (const Keeper* const keeper = Find(id)) keeper->link->Start();
}

void JobKeepers::TryAgain(JobId id) {
  if (const Keeper* const keeper = Find(id)) keeper->link->TryAgain();
}

bool JobKeepers::Discard(JobId id) {
  const auto keeper = keepers_.extract(id);
  if (keeper.empty()) return false;
  keeper.mapped().link->Discard();
  return true;
}

void JobKeepers::Leave(JobId id) {
  const auto keeper = keepers_.extract(id);
  if (keeper.empty()) return;
  boost::asio::post(loop_, [link = std::move(keeper.mapped().link)] { link->Stop(); });
}

void JobKeepers::Stop(JobId id) {
  if (const auto keeper = keepers_.extract(id); !keeper.empty()) keeper.mapped().link->Stop();
}

bool JobKeepers::IsConnected(JobId id) const {
  const Keeper* const keeper = Find(id);
  return keeper && keeper->link->connected();
}

bool JobKeepers::IsStopInJournal(JobId id) const {
  const Keeper* const keeper = Find(id);
  return keeper && keeper->stop_in_journal;
}

std::function<void()> JobKeepers::OnceStored(const Job& job) const {
  const Keeper* const keeper = Find(job.id);
  return [link = std::weak_ptr(keeper ? keeper->link : nullptr), seq = job.journal_seq] {
    if (const auto keeper_link = link.lock()) keeper_link->OnStored(seq);
  };
}

Result<> JobKeepers::Order(JobId id, keeper::Command command, Answered answered) {
  Keeper* const keeper = Find(id);
  if (!keeper) return Fail(ErrorCode::kUnavailable, "the job has no keeper");
  auto answer = self_.Bind([id, link = std::weak_ptr(keeper->link), answered = std::move(answered)](
                               JobKeepers& me, const Result<>& outcome) {
    const Keeper* const now = me.Find(id);
    const Job* const job = me.jobs_.Find(id);
    if (now && job && now->link == link.lock()) answered(*job, outcome);
  });
  return keeper->link->Send(std::move(command), std::move(answer));
}

void JobKeepers::Hold(JobId id, const base::Fd& file) {
  if (Keeper* const keeper = Find(id)) keeper->link->Hold(file);
}

// If the order cannot be sent or gets no answer, the job manager gives it again when the keeper is connected,
// until the order is in the journal. The keeper refuses the order only if the job has ended, and a journal
// record reports that.
void JobKeepers::OrderStop(const Job& job) {
  (void)Order(
      job.id,
      keeper::StopJob{{job.reason.value_or("stopped"), job.reason_detail.value_or("")}, {}, job.spec->grace},
      [this](const Job& stopped, const Result<>& outcome) {
        if (!outcome && outcome.error().code != ErrorCode::kUnavailable)
          callbacks_.on_error(stopped.id, "its keeper does not stop it: " + outcome.error().message);
      });
}

void JobKeepers::SendSettings(const Job& job) {
  Keeper* const keeper = Find(job.id);
  if (!keeper || IsEnded(job)) return;
  keeper::UpdateSettings settings = SettingsOf(job);
  const spec::RestartMode mode = settings.restart->mode;
  settings.restart = options_.launch.restart;
  settings.restart->mode = mode;
  auto text = keeper::SerializeSettings(settings);
  const auto& known = keeper->settings_sent ? keeper->settings_sent : keeper->settings_in_journal;
  if (known && *known == text) return;
  const auto sent = Order(job.id, settings, [this](const Job& told, const Result<>& outcome) {
    if (outcome || outcome.error().code == ErrorCode::kUnavailable) return;  // SyncSettings tells again
    Find(told.id)->settings_sent.reset();
    callbacks_.on_error(told.id, "its keeper did not take its settings: " + outcome.error().message);
  });
  if (sent) keeper->settings_sent = std::move(text);
}

// Settings that an earlier connection carried are in the journal by now, or never will be. And the change may
// have been undone since.
void JobKeepers::SyncSettings(const Job& job) {
  Keeper* const keeper = Find(job.id);
  if (!keeper) return;
  keeper->settings_sent.reset();
  if (job.updated || keeper->settings_in_journal) SendSettings(job);
}

Result<> JobKeepers::OrderRestart(const Job& job, const keeper::EndReason& reason,
                                  KeeperLink::Answer answer) {
  const Keeper* const keeper = Find(job.id);
  if (!keeper) return Fail(ErrorCode::kUnavailable, "the job has no keeper");
  return keeper->link->Send(keeper::RestartJob{reason, {}, job.spec->grace}, std::move(answer));
}

Result<> JobKeepers::OrderNoRestart(const Job& job, KeeperLink::Answer answer) {
  Keeper* const keeper = Find(job.id);
  if (!keeper) return Fail(ErrorCode::kUnavailable, "the job has no keeper");
  keeper::UpdateSettings settings = SettingsOf(job);
  settings.restart->mode = spec::RestartMode::kNo;
  keeper->settings_sent = keeper::SerializeSettings(settings);
  // If the keeper took the settings and its answer was lost, the journal has them, and SyncSettings corrects
  // them.
  const auto note = self_.Bind([id = job.id](JobKeepers& me, const Result<>& outcome) {
    if (Keeper* const now = me.Find(id); now && !outcome) now->settings_sent.reset();
  });
  return keeper->link->Send(settings, [note, answer = std::move(answer)](const Result<>& outcome) {
    note(outcome);
    answer(outcome);
  });
}

}  // namespace gpuman::jobs
