#include "cli/top/daemon_caller.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "api/ask.h"
#include "api/queue_client.h"
#include "base/process.h"
#include "cli/views.h"

namespace gpuman::cli::top {
namespace {

constexpr std::uint64_t kLogLines = 500;
constexpr base::Millis kSilence{30'000};

std::vector<int> PidsOf(const api::StatusView& status) {
  std::vector<int> pids;
  for (const auto& gpu : status.gpus)
    for (const auto& process : gpu.processes) pids.push_back(process.pid);
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

JobCame AskForJob(const std::filesystem::path& socket, std::int64_t job, const api::HttpOptions& options) {
  const auto ref = std::to_string(job);
  const auto tail = api::Query().AddNumber("tail", std::optional(kLogLines));
  auto log =
      api::Successful(api::Exchange(socket, api::RequestFor(api::routes::kJobLog, {{ref}, tail}), options));
  JobCame came{job, api::Ask(socket, api::routes::kJob, {{ref}}, {}, options),
               api::Ask(socket, api::routes::kWhyJob, {{ref}}, {}, options), std::string()};
  if (log)
    came.log = std::move(log->body);
  else
    came.log = base::Fail(std::move(log.error()));
  return came;
}

base::Result<api::HistoryView> AskForHistory(const std::filesystem::path& socket, const AskHistory& ask,
                                             const api::HttpOptions& options) {
  const auto since =
      std::chrono::ceil<std::chrono::seconds>(ask.interval * static_cast<std::int64_t>(kPointsKept));
  api::Query query;
  if (ask.of.gpu.empty())
    query.Add("job", std::string_view(std::to_string(ask.of.job)));
  else
    query.Add("gpu", std::string_view(ask.of.gpu));
  query.Add("since", std::string_view(fmt::format("{}s", since.count())));
  query.AddNumber("points", std::optional<std::uint64_t>(kPointsKept));
  return api::Ask(socket, api::routes::kHistory, {{}, query}, {}, options);
}

base::Result<std::string> EndProcess(const base::ProcessId& process, bool kill) {
  GPUMAN_TRY(base::SendSignal(process, kill ? SIGKILL : SIGTERM));
  return fmt::format("process {} got {}", process.pid, kill ? "SIGKILL" : "SIGTERM");
}

base::Result<std::string> Act(const std::filesystem::path& socket, const Question& question,
                              const api::HttpOptions& options) {
  if (question.process) return EndProcess(*question.process, question.action == Action::kKill);
  const auto ref = std::to_string(question.job);
  base::Result<api::JobView> job;
  switch (question.action) {
    case Action::kSuspend:
      job = api::Ask(socket, api::routes::kSuspendJob, {{ref}}, {}, options);
      break;
    case Action::kResume:
      job = api::Ask(socket, api::routes::kResumeJob, {{ref}}, {}, options);
      break;
    case Action::kCancel:
      job = api::Ask(socket, api::routes::kCancelJob, {{ref}}, {}, options);
      break;
    case Action::kEnd:
    case Action::kKill:
      job = api::Ask(socket, api::routes::kRemoveJob, {{ref}}, {}, options);
      break;
  }
  if (!job) return base::Fail(std::move(job.error()));
  return JobSentence(*job);
}

void Signal(const base::Fd& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
}

}  // namespace

base::Result<Snapshot> TakeSnapshot(const std::filesystem::path& socket, const AskStatus& ask,
                                    ProcessReader& reader, const api::HttpOptions& options) {
  Snapshot snapshot;
  const auto with_details = api::Query().AddFlag("details", true);
  GPUMAN_ASSIGN(snapshot.status, api::Ask(socket, api::routes::kStatus, {{}, with_details}, {}, options));
  if (ask.share) {
    GPUMAN_ASSIGN(snapshot.share, api::Ask(socket, api::routes::kShare, {}, {}, options));
  }
  if (ask.queue) {
    api::QueueFilter waiting;
    waiting.states = {std::string(spec::ToString(spec::JobState::kQueued)),
                      std::string(spec::ToString(spec::JobState::kHeld))};
    GPUMAN_ASSIGN(snapshot.queue, api::ListQueueRows(api::Client(socket), waiting, options));
  }
  snapshot.facts = reader.Read(PidsOf(snapshot.status));
  snapshot.host = ReadHostFacts();
  snapshot.at = base::SystemClock().Wall();
  return snapshot;
}

DaemonCaller::DaemonCaller(std::filesystem::path socket)
    : socket_(std::move(socket)),
      ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // Signals are the main thread's.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (auto* const thread : {&status_, &job_, &actions_})
    thread->thread = std::thread([this, thread] { Run(*thread); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

DaemonCaller::~DaemonCaller() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Signal(stop_);
  posted_.notify_all();
  for (auto* const thread : {&status_, &job_, &actions_}) thread->thread.join();
}

api::HttpOptions DaemonCaller::Options() const {
  api::HttpOptions options;
  options.patience = kSilence;
  options.wake_fd = stop_.get();
  options.on_wake = [] { return false; };
  return options;
}

void DaemonCaller::Ask(const AskStatus& ask) {
  Post(status_, [this, ask] { return StatusCame{TakeSnapshot(socket_, ask, reader_, Options())}; });
}

void DaemonCaller::Ask(const AskJob& ask) {
  Post(job_, [this, ask] { return AskForJob(socket_, ask.job, Options()); });
}

void DaemonCaller::Ask(const AskHistory& ask) {
  Post(job_, [this, ask] { return HistoryCame{AskForHistory(socket_, ask, Options())}; });
}

void DaemonCaller::Ask(const PerformAction& action) {
  Post(actions_, [this, question = action.question] {
    auto options = Options();
    options.patience.reset();  // it takes as long as the job needs
    return ActionResult{question, Act(socket_, question, options)};
  });
}

void DaemonCaller::Post(CallThread& thread, std::function<Event()> call) {
  {
    const std::lock_guard lock(mutex_);
    thread.calls.push_back(std::move(call));
  }
  posted_.notify_all();
}

void DaemonCaller::Run(CallThread& thread) {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [&] { return stopping_ || !thread.calls.empty(); });
    if (stopping_) return;
    const auto call = std::move(thread.calls.front());
    thread.calls.pop_front();
    lock.unlock();
    Event answer = call();
    lock.lock();
    answers_.push_back(std::move(answer));
    Signal(ready_);
  }
}

std::vector<Event> DaemonCaller::Take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(ready_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace gpuman::cli::top
