#include "keeper/supervisor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "keeper/held_file.h"
#include "keeper/host_limits.h"

namespace gpuman::keeper {
namespace {

constexpr base::Millis kJournalRetry{1000};

std::chrono::microseconds Micros(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

MainEnd EndFrom(int status, const rusage& usage) {
  MainEnd end;
  end.kind = WIFSIGNALED(status) ? EndKind::kSignalled : EndKind::kExited;
  end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  end.core_dumped = WIFSIGNALED(status) && WCOREDUMP(status);
  end.usage = {Micros(usage.ru_utime), Micros(usage.ru_stime),
               base::KiB(static_cast<std::uint64_t>(std::max(0L, usage.ru_maxrss)))};
  return end;
}

std::vector<int> ProcessorsOf(const KeeperResources& resources) {
  if (!resources.pin_processors) return {};
  return FreestProcessors(static_cast<std::size_t>(resources.spec.host.cpus), resources.spec.job_id);
}

pid_t WaitFor(pid_t pid, int& status, rusage& usage) {
  pid_t got = 0;
  do {
    got = ::wait4(pid, &status, 0, &usage);
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

Supervisor::Supervisor(KeeperResources resources, const base::Clock& clock, const base::ProcessTable& table)
    : resources_(std::move(resources)), clock_(clock), table_(table), machine_(resources_.spec) {}

void Supervisor::Run(const JobHistory& history, bool same_boot) {
  for (const auto& text : history.settings)
    if (auto settings = ParseSettings(text)) {
      machine_.ApplySettings(*settings);
      const auto& log = resources_.log.settings();
      resources_.log.SetLimits(settings->log_size_limit.value_or(log.size_limit),
                               settings->log_rotations.value_or(log.rotations));
    }
  Perform(machine_.Begin(history, same_boot, clock_.Mono()));
  FlushJournal();
  StartLaunch();
  std::array<epoll_event, 16> events;
  while (!leaving_ || resources_.journal.Pending()) {
    // Each turn looks at everything anew: the events themselves do not matter.
    (void)::epoll_wait(resources_.epoll.get(), events.data(), static_cast<int>(events.size()), WaitTime());
    Turn();
  }
  while (!ReadOutput()) {
  }
}

void Supervisor::Turn() {
  turn_again_ = false;
  const bool main_ended = MainHasEnded();
  DrainControl();
  PollLaunch();
  DrainSignals();
  // What a run has written is in the log before what is noted of its end.
  if (!ReadOutput()) turn_again_ = true;
  if (main_ended)
    ReapMain();
  else if (ReapOthers()) {
    (void)ReadOutput();  // its last process may have written since
    Perform(machine_.OnTreeEmpty(clock_.Mono()));
  }
  Perform(machine_.OnTime(clock_.Mono()));
  FlushJournal();
  if (!resources_.journal.Pending()) resources_.control.SendReplies();
  StartLaunch();
}

int Supervisor::WaitTime() const {
  if (turn_again_) return 0;
  auto next = machine_.deadline();
  if (retry_at_ && (!next || *retry_at_ < *next)) next = retry_at_;
  if (!next) return -1;
  const auto left = std::chrono::ceil<base::Millis>(*next - clock_.Mono()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

void Supervisor::Perform(const Actions& actions) {
  for (const auto& one : actions) std::visit([this](const auto& a) { Perform(a); }, one);
}

void Supervisor::Perform(const action::Launch& launch) { to_launch_ = launch.run; }
void Supervisor::Perform(const action::Append& append) {
  // Before the record: who reads of the end finds the bytes. A daemon that is there has them already, so
  // where the disk is full the log's last room is not for a word of that.
  if (std::holds_alternative<RunEnded>(append.body) && held_.ok())
    (void)SaveHeld(held_.get(), resources_.job_dir).has_value();
  resources_.journal.Append(append.body);
}
void Supervisor::Perform(const action::LogNote& note) { resources_.log.Note(note.text); }
void Supervisor::Perform(const action::Leave&) { leaving_ = true; }

void Supervisor::Perform(const action::SignalMain& order) {
  if (!machine_.process()) return;
  if (auto sent = base::SendSignal(*machine_.process(), order.signal); !sent)
    resources_.log.Note(
        fmt::format("signal {} did not reach the command: {}", order.signal, sent.error().message));
}

// An order is on disk before it has effects, so that the next keeper knows of the order if this keeper is
// killed meanwhile.
void Supervisor::Perform(const action::SignalTree& order) {
  FlushJournal();
  SignalTree(resources_.tree, order.signal, table_);
}

void Supervisor::Perform(const action::KillTree&) {
  FlushJournal();
  KillTree(resources_.tree, table_);
}

void Supervisor::FlushJournal() {
  auto flushed = resources_.journal.Flush();
  for (const auto& record : flushed.written) resources_.control.Broadcast(record);
  if (flushed.result) {
    retry_at_.reset();
    return;
  }
  if (!retry_at_) resources_.log.Note("the journal cannot be written: " + flushed.result.error().message);
  retry_at_ = clock_.Mono() + kJournalRetry;
}

void Supervisor::StartLaunch() {
  while (to_launch_ && !resources_.journal.Pending()) {
    const RunNumber run = *std::exchange(to_launch_, std::nullopt);
    // While the journal could not be written, another order may have come.
    if (machine_.stop_ordered()) {
      Perform(machine_.OnLaunchFailed({run, "stopped", 0, "it was stopped before it was started"},
                                      clock_.Mono()));
      FlushJournal();
      continue;
    }
    resources_.journal.Hold();
    RemoveSavedHeld(resources_.job_dir);
    HoldMemory();
    const ProcessLaunchRequest request{
        .spec = resources_.spec,
        .run = run,
        .extra_environment = {fmt::format("{}={}", kKeyVariable, resources_.key)},
        .cgroup = resources_.tree.cgroup,
        .processors = ProcessorsOf(resources_),
        .output_fd = resources_.output_in.get(),
        .journal_fd = resources_.journal.fd(),
        .seq = resources_.journal.NextSeq(),
        .notes = std::exchange(resources_.notes, {})};
    auto started = LaunchingProcess::Start(request, clock_);
    if (started) {
      launching_ = std::move(*started);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = launching_->fd();
      (void)::epoll_ctl(resources_.epoll.get(), EPOLL_CTL_ADD, launching_->fd(), &event);
      return;
    }
    resources_.journal.Release(false);
    Perform(machine_.OnLaunchFailed({run, "fork", 0, started.error().message}, clock_.Mono()));
    FlushJournal();
  }
}

void Supervisor::PollLaunch() {
  if (!launching_ || !launching_->Poll()) return;
  const LaunchingProcess way = std::move(*std::exchange(launching_, std::nullopt));
  auto started = way.started();
  auto failed = way.failed();
  if (started || failed) {
    resources_.journal.Release(started.has_value());
  } else {
    // The child was killed before it reported; it may have written its record all the same.
    auto found = resources_.journal.ReleaseAfterLoss(resources_.job_dir);
    if (found) started = std::move(*found);
    if (!started) failed = DiedOnTheWay(way.pid());
  }
  if (started) resources_.control.Broadcast(*started);
  if (auto shortened = ShortenJournal(); !shortened)
    resources_.log.Note("the journal was not shortened: " + shortened.error().message);
  if (failed) {
    int status = 0;
    rusage usage{};
    if (started || way.failed()) WaitFor(way.pid(), status, usage);
    Perform(machine_.OnLaunchFailed(*failed, clock_.Mono()));
    return;
  }
  main_ = way.pid();
  Perform(machine_.OnLaunched(std::get<RunStarted>(started->body), clock_.Mono()));
  turn_again_ = true;  // it may have ended already
}

StartFailed Supervisor::DiedOnTheWay(pid_t pid) const {
  int status = 0;
  rusage usage{};
  WaitFor(pid, status, usage);
  const std::string how = WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status))
                                              : fmt::format("gone with status {}", WEXITSTATUS(status));
  return {machine_.run(), "killed", 0, fmt::format("the process was {} before it executed the command", how)};
}

base::Result<> Supervisor::OnCommand(const Command& command, base::Fd file) {
  if (const auto* stored = std::get_if<RecordsStored>(&command)) {
    stored_ = std::max(stored_.value_or(0), stored->up_to);
    return ShortenJournal();
  }
  if (std::holds_alternative<HoldFile>(command)) {
    GPUMAN_TRY(CheckHeld(file.get()));
    held_ = std::move(file);
    return {};
  }
  GPUMAN_ASSIGN(auto actions, machine_.OnCommand(command, clock_.Mono()));
  // The reply tells the client when the signal did not arrive.
  if (const auto* signal = std::get_if<SendSignalTo>(&command); signal && !signal->tree && !actions.empty())
    return base::SendSignal(*machine_.process(), signal->signal);
  if (const auto* update = std::get_if<UpdateSettings>(&command)) {
    const auto& log = resources_.log.settings();
    resources_.log.SetLimits(update->log_size_limit.value_or(log.size_limit),
                             update->log_rotations.value_or(log.rotations));
  }
  Perform(actions);
  return {};
}

base::Result<> Supervisor::ShortenJournal() {
  if (launching_ || !stored_) return {};
  return resources_.journal.Shorten(resources_.job_dir, *std::exchange(stored_, std::nullopt));
}

KeeperHello Supervisor::State() const {
  KeeperHello hello;
  hello.job_id = resources_.spec.job_id;
  hello.keeper = resources_.tree.keeper;
  hello.cgroup = resources_.tree.cgroup;
  hello.phase = machine_.phase();
  hello.run = machine_.run();
  hello.process = machine_.process();
  hello.last_seq = resources_.journal.LastSeq();
  hello.shortens = true;
  hello.holds = true;
  return hello;
}

void Supervisor::DrainControl() {
  resources_.control.Drain(
      [this] { return State(); },
      [this](const Command& command, base::Fd file) { return OnCommand(command, std::move(file)); });
}

bool Supervisor::MainHasEnded() const {
  if (main_ == 0) return false;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(main_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

void Supervisor::ReapMain() {
  int status = 0;
  rusage usage{};
  WaitFor(main_, status, usage);
  main_ = 0;
  const bool empty = ReapOthers();
  if (empty) (void)ReadOutput();  // as above: one of them may have written since
  auto end = EndFrom(status, usage);
  end.cause = CauseOf(end);
  Perform(machine_.OnMainEnded(end, empty, clock_.Mono()));
}

// Sets the limit again: the limit stays lifted if the last run ended while it was off its GPU.
void Supervisor::HoldMemory() {
  if (!resources_.memory_held) return;
  (void)LimitMemory(resources_.tree.cgroup, resources_.spec.host.memory).has_value();
  memory_kills_ = OutOfMemoryKills(resources_.tree.cgroup).value_or(0);
}

// A run that went on without the process that the kernel ended, and exited with 0, has no such cause.
std::optional<EndReason> Supervisor::CauseOf(const MainEnd& end) const {
  if (!resources_.memory_held || (end.kind == EndKind::kExited && end.code == 0)) return std::nullopt;
  if (OutOfMemoryKills(resources_.tree.cgroup).value_or(0) <= memory_kills_) return std::nullopt;
  return HostMemoryReason(*resources_.spec.host.memory, PeakMemory(resources_.tree.cgroup));
}

bool Supervisor::ReapOthers() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return errno == ECHILD;
    }
    if (info.si_pid == 0) return false;
    const bool ours = info.si_pid == main_ || (launching_ && info.si_pid == launching_->pid());
    if (ours) {
      turn_again_ = true;  // it ended after this turn looked
      return false;
    }
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void Supervisor::DrainSignals() {
  signalfd_siginfo info;
  while (::read(resources_.signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    if (info.ssi_signo != SIGCHLD) Perform(machine_.OnShutdown(clock_.Mono()));
}

bool Supervisor::ReadOutput() {
  std::array<char, 16384> buffer;
  for (int i = 0; i < 64; ++i) {
    const ssize_t n = ::read(resources_.output.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    resources_.log.Write(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
  }
  return false;
}

}  // namespace gpuman::keeper
