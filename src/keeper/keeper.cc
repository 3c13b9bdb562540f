#include "keeper/keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/boot.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/process_spawner.h"
#include "keeper/cgroup.h"
#include "keeper/client.h"
#include "keeper/host_limits.h"
#include "keeper/job_dir.h"
#include "keeper/process_tree.h"
#include "keeper/recovery.h"
#include "keeper/supervisor.h"

namespace gpuman::keeper {
namespace {

base::Result<base::Fd> TakeSignals() {
  struct sigaction no_stops {};
  no_stops.sa_handler = SIG_DFL;
  no_stops.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &no_stops, nullptr);
  // The keeper must not end by a file size limit that it has from the daemon.
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
  base::Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.ok()) return base::FailSystem(errno, "making a signalfd");
  return fd;
}

base::Result<> Watch(const base::Fd& epoll, const base::Fd& fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd.get();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0)
    return base::FailSystem(errno, "watching a descriptor");
  return {};
}

// The job's user may open its own stdout again (/dev/stdout), so the pipe is given to that user.
base::Result<> MakeOutputPipe(const Spec& spec, base::Fd& out, base::Fd& in) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return base::FailSystem(errno, "making the output pipe");
  out = base::Fd(fds[0]);
  in = base::Fd(fds[1]);
  ::fcntl(out.get(), F_SETFL, O_NONBLOCK);
  if (::geteuid() == 0) (void)!::fchown(in.get(), spec.uid, spec.gid);
  return {};
}

base::Result<std::filesystem::path> MakeJobCgroup(const Spec& spec, const std::filesystem::path& limiting,
                                                  const std::string& key) {
  auto parent = limiting.empty() ? spec.cgroup_parent : limiting;
  if (parent.empty()) {
    GPUMAN_ASSIGN(parent, OwnCgroupDirectory());
    parent /= "gpuman";
  }
  return MakeCgroup(parent, fmt::format("job-{}-{}", spec.job_id, key.substr(0, 8)));
}

// Makes the cgroup of the job and sets the job's limits of the host there.
void MakeCgroup(KeeperResources& resources) {
  const HostLimits& limits = resources.spec.host;
  HostLimitPlan hold;
  if (limits.Any() && resources.spec.use_cgroup) {
    const auto own =
        resources.spec.cgroup_parent.empty() ? OwnCgroupDirectory() : resources.spec.cgroup_parent;
    hold = PlanHostLimits(limits, own, TopCgroupDirectory());
    resources.notes.insert(resources.notes.end(), hold.notes.begin(), hold.notes.end());
  }
  if (resources.spec.use_cgroup) {
    auto cgroup = MakeJobCgroup(resources.spec, hold.parent, resources.key);
    if (cgroup)
      resources.tree.cgroup = std::move(*cgroup);
    else
      resources.notes.push_back("the job has no cgroup: " + cgroup.error().message);
  }
  const auto& cgroup = resources.tree.cgroup;
  const base::Result<> without = base::Fail(base::ErrorCode::kNotSupported, "it has no cgroup");
  if (hold.memory) {
    const auto held = cgroup.empty() ? without : LimitMemory(cgroup, limits.memory);
    resources.memory_held = held.has_value();
    if (!held)
      resources.notes.push_back(fmt::format("its host memory is not limited to {}: {}",
                                            base::FormatBytes(*limits.memory), held.error().message));
  }
  const bool by_cgroup = hold.processors && !cgroup.empty() && LimitProcessors(cgroup, limits.cpus);
  resources.pin_processors = limits.cpus > 0 && !by_cgroup;
}

// When the machine is short of memory, the kernel is to end the job and not the keeper that records its end.
// The child starts from the value before.
void ProtectFromOomKiller(Spec& spec) {
  if (::geteuid() != 0) return;
  const auto before = base::ReadFile("/proc/self/oom_score_adj", 32);
  if (!before || !base::WriteControl("/proc/self/oom_score_adj", "-900")) return;
  std::string_view rest = *before;
  if (!spec.oom_score_adj) spec.oom_score_adj = base::TakeNumber<int>(rest).value_or(0);
}

base::Result<KeeperResources> AcquireResources(const std::filesystem::path& job_dir, Spec spec,
                                               JournalWriter journal, const base::Clock& clock) {
  base::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.ok()) return base::FailSystem(errno, "making an epoll descriptor");
  GPUMAN_ASSIGN(base::Fd signals, TakeSignals());
  GPUMAN_TRY(Watch(epoll, signals));
  base::Fd output, output_in;
  GPUMAN_TRY(MakeOutputPipe(spec, output, output_in));
  GPUMAN_TRY(Watch(epoll, output));
  GPUMAN_ASSIGN(auto control, ControlServer::Listen(job_dir, epoll.get()));

  std::vector<std::string> notes;
  OutputLog log(spec.log, spec.uid, spec.gid, clock);
  if (auto opened = log.Open(); !opened) notes.push_back("output is lost: " + opened.error().message);
  const std::string key = MakeKey();
  KeeperResources resources{.job_dir = job_dir,
                            .spec = std::move(spec),
                            .journal = std::move(journal),
                            .log = std::move(log),
                            .control = std::move(control),
                            .tree = {base::SelfId(), {}},
                            .key = key,
                            .epoll = std::move(epoll),
                            .signals = std::move(signals),
                            .output = std::move(output),
                            .output_in = std::move(output_in),
                            .notes = std::move(notes)};
  MakeCgroup(resources);
  return resources;
}

// Once a keeper has begun, a spec that cannot be read any more is damage like that of the journal.
base::Result<Spec> SpecOf(const std::filesystem::path& job_dir, bool has_begun) {
  auto spec = ReadSpec(job_dir);
  if (spec) return spec;
  auto error = std::move(spec.error()).In((job_dir / kSpecFile).string());
  const bool damaged = error.code == base::ErrorCode::kCorrupt || error.code == base::ErrorCode::kNotFound;
  if (damaged) error.code = has_begun ? base::ErrorCode::kCorrupt : base::ErrorCode::kInternal;
  return base::Fail(std::move(error));
}

}  // namespace

base::Result<int> KeepJob(const std::filesystem::path& given_dir, std::uint64_t known_records,
                          const base::Clock& clock, const base::ProcessTable& table,
                          const std::function<void()>& ready) {
  const auto job_dir = std::filesystem::absolute(given_dir);
  auto lock = TakeLock(job_dir);
  if (!lock && lock.error().code == base::ErrorCode::kConflict) return kExitAlreadyRunning;
  if (!lock) return base::Fail(std::move(lock.error()));
  if (::chdir("/") != 0) return base::FailSystem(errno, "entering /");
  GPUMAN_ASSIGN(const auto recovered, RecoverJournal(job_dir));
  if (recovered.history.job_ended) return kExitAlreadyEnded;
  const std::string boot_id = base::BootId();
  const JournalLossEvidence evidence{LastInCharge(lock->get()), boot_id, known_records};
  if (auto damage = DamageOf(recovered, evidence, job_dir)) {
    EndLeftoversOfAll(recovered, evidence, table);
    return base::Fail(std::move(*damage));
  }
  JobHistory history;
  GPUMAN_ASSIGN(auto journal, JournalWriter::Open(job_dir, clock, history));

  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return base::FailSystem(errno, "becoming a subreaper");
  const bool same_boot = history.keeper && history.keeper->boot_id == boot_id;
  if (same_boot) EndLeftovers(history.keeper->cgroup, history.keeper->key, table);
  GPUMAN_ASSIGN(auto spec, SpecOf(job_dir, history.keeper.has_value()));
  ProtectFromOomKiller(spec);
  GPUMAN_ASSIGN(auto resources, AcquireResources(job_dir, std::move(spec), std::move(journal), clock));
  const auto cgroup = resources.tree.cgroup;
  resources.journal.Append(
      KeeperStarted{resources.tree.keeper, boot_id, cgroup, resources.key, GPUMAN_VERSION});
  ready();
  // A first run's start is synced together with this record.
  const auto flushed = resources.journal.Flush(/*sync=*/history.last_run > 0);
  if (!flushed.written.empty()) NoteInCharge(lock->get(), flushed.written.front());
  Supervisor(std::move(resources), clock, table).Run(history, same_boot);
  if (!cgroup.empty()) RemoveCgroup(cgroup);
  ::unlink((job_dir / kControlSocket).c_str());
  return 0;
}

int Detach(const std::function<int(const std::function<void()>& ready)>& work) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return 1;
  base::Fd told(fds[0]);
  base::Fd tell(fds[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return 1;
  if (pid == 0) {
    told.Close();
    ::setsid();
    return work([&tell] {
      const char done = 0;
      (void)!::write(tell.get(), &done, 1);
      tell.Close();
      if (const base::Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC)); null.ok()) ::dup2(null.get(), 2);
    });
  }
  tell.Close();
  char done = 0;
  ssize_t n = 0;
  do {
    n = ::read(told.get(), &done, 1);
  } while (n < 0 && errno == EINTR);
  if (n == 1) return 0;
  const int status = base::WaitForChild(pid).value_or(0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace gpuman::keeper
