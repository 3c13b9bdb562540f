#include "base/time_limited_process_table.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/time_token_bucket.h"

namespace gpuman::base {
namespace {

constexpr std::size_t kMaxHeld = 8;
constexpr std::size_t kMaxBudgets = 256;  // before untouched budgets are dropped
constexpr int kShare = 20;
constexpr std::size_t kMaxCommands = 1024;
constexpr std::size_t kLongestCommand = 4096;  // in bytes; longer ones are not remembered

}  // namespace

// Threads that read; one of them is ready for the next read.
class TimeLimitedProcessTable::Readers
    : public std::enable_shared_from_this<TimeLimitedProcessTable::Readers> {
 public:
  Readers(std::chrono::milliseconds patience, For whom, const Clock& clock)
      : patience_(patience), is_charged_(whom == For::kLoop), clock_(clock) {}

  // A user, or one process.
  using Whose = std::pair<uid_t, pid_t>;

  // False: `act` did not finish within the time.
  bool Do(What what, const Whose& whose, std::function<void()> act) {
    std::unique_lock lock(mutex_);
    if (held_.contains(whose) || held_.size() >= kMaxHeld) return false;
    const auto began = clock_.Mono();
    const TimeTokenBucket::Duration left = is_charged_ ? BudgetOf(what, whose, began).Left(began) : patience_;
    // A shorter time is not enough for any read: if callers asked about an owner all the time, no read of
    // that owner's processes would ever succeed.
    if (left < patience_ / kShare) return false;
    const auto turn = std::make_shared<Turn>(Turn{whose, std::move(act)});
    if (idle_ <= waiting_.size() && !Start()) return false;
    waiting_.push_back(turn);
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn->begun; });
    const bool in_time = changed_.wait_for(lock, left, [&] { return turn->done; });
    const auto ended = clock_.Mono();
    if (is_charged_) BudgetOf(what, whose, ended).Spend(ended, ended - began);
    if (in_time) return true;
    held_.insert(whose);
    turn->held = true;
    return false;
  }

  void End() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }

 private:
  struct Turn {
    Whose whose;
    std::function<void()> act;
    bool begun = false, done = false, held = false;
  };

  TimeTokenBucket& BudgetOf(What what, const Whose& whose, MonoTime now) {
    if (budgets_.size() >= kMaxBudgets)
      std::erase_if(budgets_, [now](const auto& entry) { return entry.second.IsUntouched(now); });
    return budgets_.try_emplace({what, whose}, patience_, kShare).first->second;
  }

  bool Start() {
    try {
      std::thread([self = shared_from_this()] { self->Run(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++idle_;
    return true;
  }

  void Run() {
    ::pthread_setname_np(::pthread_self(), "gpuman-reader");
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      const auto turn = std::move(waiting_.front());
      waiting_.pop_front();
      turn->begun = true;
      changed_.notify_all();
      lock.unlock();
      turn->act();
      lock.lock();
      turn->done = true;
      if (turn->held) held_.erase(turn->whose);
      changed_.notify_all();
      if (ending_ || idle_ > 0) return;
      ++idle_;
    }
  }

  const std::chrono::milliseconds patience_;
  const bool is_charged_;
  const Clock& clock_;  // used by callers, never by a thread
  std::mutex mutex_;
  std::map<std::pair<What, Whose>, TimeTokenBucket> budgets_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Turn>> waiting_;
  std::set<Whose> held_;
  std::size_t idle_ = 0;  // threads that wait for a turn, or soon will
  bool ending_ = false;
};

// The arguments of processes as they were last read.
class TimeLimitedProcessTable::KnownCommands {
 public:
  void Keep(ProcessId process, const std::vector<std::string>& command) {
    std::size_t size = 0;
    for (const auto& word : command) size += word.size() + 1;
    const std::lock_guard lock(mutex_);
    if (size > kLongestCommand) {
      commands_.erase(process);
      return;
    }
    if (commands_.size() >= kMaxCommands && !commands_.contains(process)) commands_.clear();
    commands_[process] = command;
  }
  std::vector<std::string> Last(ProcessId process) const {
    const std::lock_guard lock(mutex_);
    const auto found = commands_.find(process);
    return found == commands_.end() ? std::vector<std::string>{} : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<ProcessId, std::vector<std::string>> commands_;
};

TimeLimitedProcessTable::TimeLimitedProcessTable(std::filesystem::path root,
                                                 std::chrono::milliseconds patience, For whom)
    : TimeLimitedProcessTable(std::move(root), patience, whom, []() -> const Clock& {
        static const SystemClock clock;
        return clock;
      }()) {}

TimeLimitedProcessTable::TimeLimitedProcessTable(std::filesystem::path root,
                                                 std::chrono::milliseconds patience, For whom,
                                                 const Clock& clock)
    : proc_(std::move(root)),
      readers_(std::make_shared<Readers>(patience, whom, clock)),
      commands_(std::make_unique<KnownCommands>()) {}

TimeLimitedProcessTable::~TimeLimitedProcessTable() { readers_->End(); }

bool TimeLimitedProcessTable::Read(What what, pid_t pid, std::function<void()> act) const {
  const auto owner = Owner(pid);
  return owner && readers_->Do(what, {*owner, *owner == 0 ? pid : 0}, std::move(act));
}

std::vector<std::string> TimeLimitedProcessTable::CommandLine(pid_t pid) const {
  const auto process = proc_.Find(pid);
  const auto answer = std::make_shared<std::vector<std::string>>();
  if (!Read(What::kArguments, pid, [answer, proc = proc_, pid] { *answer = proc.CommandLine(pid); }))
    return process ? commands_->Last(process->id) : std::vector<std::string>{};
  if (process) commands_->Keep(process->id, *answer);
  return std::move(*answer);
}

Result<std::optional<std::string>> TimeLimitedProcessTable::ReadEnvironment(pid_t pid,
                                                                            std::string_view name) const {
  const auto answer = std::make_shared<std::optional<std::string>>();
  if (Read(What::kEnvironment, pid, [answer, proc = proc_, pid, wanted = std::string(name)] {
        *answer = proc.Environment(pid, wanted);
      }))
    return std::move(*answer);
  if (!Owner(pid)) return std::optional<std::string>();  // it has ended
  return Fail(ErrorCode::kUnavailable, fmt::format("the environment of process {} is not known yet", pid));
}

std::optional<std::string> TimeLimitedProcessTable::Environment(pid_t pid, std::string_view name) const {
  return ReadEnvironment(pid, name).value_or(std::nullopt);
}

}  // namespace gpuman::base
