#include "jobs/tree_signals.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::jobs {
namespace {

using base::ProcessInfo;

constexpr int kUrgency = -10;  // nice value: a SIGKILL must not wait for the processes that it ends

int StrengthOf(int signal) { return signal == SIGKILL ? 2 : signal == SIGTERM ? 1 : 0; }

// As many pids as one read returns, which is one page: the cgroup may hold any number of processes.
std::set<pid_t> FirstPidsOf(const std::filesystem::path& cgroup) {
  std::set<pid_t> pids;
  std::array<char, 4096> page{};
  const auto file = base::OpenFile(cgroup / "cgroup.procs", O_RDONLY | O_NONBLOCK);
  const auto size = file ? ::read(file->get(), page.data(), page.size()) : 0;
  std::string_view text(page.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  while (text.find('\n') != std::string_view::npos) {
    auto line = base::TakeUntil(text, '\n');
    if (const auto pid = base::TakeNumber<pid_t>(line); pid && *pid > 0) pids.insert(*pid);
  }
  return pids;
}

}  // namespace

// One order that is being carried out. The thread owns it, but for `sent`.
struct TreeSignals::Walk {
  Walk(JobId whose, SignalOrder what) : job(whose), order(std::move(what)) {}
  JobId job;
  SignalOrder order;
  std::set<pid_t> counted{};  // had cgroup.kill, and are counted
  // Held while signals are sent and counted: in between, a process may end and the loop may learn of its end.
  std::mutex step;
  SignalOrderResult sent{};  // guarded by `step`
  keeper::ProcessTreeKiller killing{};
  std::optional<std::chrono::steady_clock::time_point> began{};
};

struct TreeSignals::Thread {
  using WalkPtr = std::shared_ptr<Walk>;

  Thread(const base::ProcessTable& processes, const base::Clock& time, std::function<void(JobId)> tell)
      : table(processes), clock(time), finished(std::move(tell)) {}
  ~Thread() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    more.notify_one();
    if (thread.joinable()) thread.join();
  }

  void Add(WalkPtr walk) {
    const std::lock_guard lock(mutex);
    added.push_back(std::move(walk));
    more.notify_one();
    if (thread.joinable()) return;
    try {
      thread = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      // The next Add tries again.
    }
  }

  // Without a time, the job had no process left: it counts as ended now.
  SignalOrderResult SentOf(Walk& walk) {
    const std::lock_guard lock(walk.step);
    return walk.sent.at == base::MonoTime{} ? SignalOrderResult{walk.sent.processes, clock.Mono()}
                                            : walk.sent;
  }

  void Run() {
    ::pthread_setname_np(::pthread_self(), "gpuman-signals");
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kUrgency);
    std::vector<WalkPtr> walks;
    std::unique_lock lock(mutex);
    for (;;) {
      more.wait(lock, [&] { return ending || !added.empty() || !walks.empty(); });
      walks.insert(walks.end(), added.begin(), added.end());
      added.clear();
      const bool last = ending;
      lock.unlock();
      if (!walks.empty()) Round(walks, last);
      if (last) return;
      lock.lock();
    }
  }

  // One listing for all jobs. A job with few processes does not wait for one with many. The last round stops
  // no process, since it could not be killed any more.
  void Round(std::vector<WalkPtr>& walks, bool last) {
    const auto listing = table.List();
    std::vector<std::pair<WalkPtr, std::vector<ProcessInfo>>> found;
    found.reserve(walks.size());
    for (const auto& walk : walks) found.emplace_back(walk, MembersOf(*walk, listing));
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    walks.clear();
    for (const auto& [walk, members] : found) {
      if (last)
        (void)keeper::SignalAll(members, walk->order.signal);
      else if (Step(*walk, members))
        finished(walk->job);
      else
        walks.push_back(walk);
    }
  }

  std::vector<ProcessInfo> MembersOf(const Walk& walk, const std::vector<ProcessInfo>& listing) const {
    const auto& order = walk.order;
    auto members = keeper::Members(order.tree, listing, table);
    if (!order.has_runs) return members;
    const auto keeper = std::find_if(listing.begin(), listing.end(), [&](const ProcessInfo& process) {
      return process.id == order.tree.keeper;
    });
    if (keeper != listing.end() && (order.run || walk.began))
      std::erase_if(members, [&](const ProcessInfo& process) {
        return process.parent == order.tree.keeper.pid && process.name == keeper->name &&
               process.id != order.run;
      });
    // is_over is called after the listing: a run is in the journal before its command is executed.
    if (!members.empty() && order.is_over && order.is_over()) return {};
    return members;
  }

  // True: there is nothing more to do.
  bool Step(Walk& walk, const std::vector<ProcessInfo>& members) {
    const std::lock_guard lock(walk.step);
    if (!walk.began) walk.began = std::chrono::steady_clock::now();
    if (walk.order.signal != SIGKILL) {
      walk.sent = {keeper::SignalAll(members, walk.order.signal), clock.Mono()};
      return true;
    }
    const std::size_t before = walk.killing.killed();
    const bool complete = walk.killing.Step(members);
    if (walk.killing.killed() > before) {
      const auto uncounted = std::count_if(members.begin(), members.end(), [&](const ProcessInfo& process) {
        return walk.counted.insert(process.id.pid).second;
      });
      walk.sent = {walk.sent.processes + static_cast<std::size_t>(uncounted), clock.Mono()};
    }
    return complete || std::chrono::steady_clock::now() >= *walk.began + keeper::kKillPatience;
  }

  const base::ProcessTable& table;
  const base::Clock& clock;
  const std::function<void(JobId)> finished;
  std::mutex mutex;  // guards what follows
  std::condition_variable more;
  std::vector<WalkPtr> added;
  bool ending = false;
  std::thread thread;
};

TreeSignals::TreeSignals(base::Executor to_loop, const base::ProcessTable& table, const base::Clock& clock)
    : to_loop_(std::move(to_loop)), clock_(clock), self_(std::make_shared<TreeSignals*>(this)) {
  side_ = std::make_unique<Thread>(table, clock, [to_loop = to_loop_, self = self_](JobId job) {
    to_loop([self, job] {
      if (*self) (*self)->OnFinished(job);
    });
  });
}

TreeSignals::~TreeSignals() { *self_ = nullptr; }

void TreeSignals::Send(JobId job, SignalOrder order, Done done) {
  Pending& pending = pending_[job];
  if (!pending.walk) {
    std::vector<Done> all;
    all.push_back(std::move(done));
    return Begin(job, pending, std::move(order), std::move(all));
  }
  // SIGKILL continues until no process is found, so it needs no second order.
  if (!pending.over && pending.walk->order.signal == SIGKILL) {
    pending.done.push_back(std::move(done));
    return;
  }
  if (!pending.next || StrengthOf(order.signal) >= StrengthOf(pending.next->signal))
    pending.next = std::move(order);
  pending.next_done.push_back(std::move(done));
}

void TreeSignals::Begin(JobId job, Pending& pending, SignalOrder order, std::vector<Done> done) {
  auto walk = std::make_shared<Walk>(job, std::move(order));
  const auto& cgroup = walk->order.tree.cgroup;
  if (walk->order.signal == SIGKILL && !cgroup.empty()) {
    walk->counted = FirstPidsOf(cgroup);
    if (keeper::KillAtOnce(walk->order.tree))
      walk->sent = {walk->counted.size(), clock_.Mono()};
    else
      walk->counted.clear();
  }
  pending = {walk, std::move(done)};
  side_->Add(std::move(walk));
}

void TreeSignals::OnFinished(JobId job) {
  const auto it = pending_.find(job);
  if (it == pending_.end()) return;
  Pending before = std::exchange(it->second, {});
  if (before.next)
    Begin(job, it->second, std::move(*before.next), std::move(before.next_done));
  else
    pending_.erase(it);
  const SignalOrderResult sent = side_->SentOf(*before.walk);
  for (const auto& done : before.done) done(sent);
}

void TreeSignals::RunIsOver(JobId job) {
  const auto it = pending_.find(job);
  if (it == pending_.end()) return;
  it->second.over = true;
  it->second.next.reset();
  auto done = std::exchange(it->second.done, {});
  auto dropped = std::exchange(it->second.next_done, {});
  const SignalOrderResult sent = side_->SentOf(*it->second.walk);
  for (const auto& one : done) one(sent);
  for (const auto& one : dropped) one({0, clock_.Mono()});
}

}  // namespace gpuman::jobs
