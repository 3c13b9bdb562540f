#include "base/patient_table.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuman::base {
namespace {

constexpr std::size_t kMostHeld = 8;

}  // namespace

// Threads that read, one of them ready for the next.
class PatientTable::Readers : public std::enable_shared_from_this<PatientTable::Readers> {
 public:
  // Of a user, or of one process.
  using Whose = std::pair<uid_t, pid_t>;

  // False: not within the time.
  bool Do(const Whose& whose, std::function<void()> act, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    if (held_.contains(whose) || held_.size() >= kMostHeld) return false;
    const auto turn = std::make_shared<Turn>(Turn{whose, std::move(act)});
    if (idle_ <= waiting_.size() && !Start()) return false;
    waiting_.push_back(turn);
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn->begun; });
    if (changed_.wait_for(lock, patience, [&] { return turn->done; })) return true;
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

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Turn>> waiting_;
  std::set<Whose> held_;
  std::size_t idle_ = 0;  // threads that wait for a turn, or are about to
  bool ending_ = false;
};

PatientTable::PatientTable(std::filesystem::path root, std::chrono::milliseconds patience)
    : proc_(std::move(root)), patience_(patience), readers_(std::make_shared<Readers>()) {}

PatientTable::~PatientTable() { readers_->End(); }

bool PatientTable::Read(pid_t pid, std::function<void()> act) const {
  const auto owner = Owner(pid);
  return owner && readers_->Do({*owner, *owner == 0 ? pid : 0}, std::move(act), patience_);
}

std::vector<std::string> PatientTable::CommandLine(pid_t pid) const {
  const auto answer = std::make_shared<std::vector<std::string>>();
  if (!Read(pid, [answer, proc = proc_, pid] { *answer = proc.CommandLine(pid); })) return {};
  return std::move(*answer);
}

std::optional<std::string> PatientTable::Environment(pid_t pid, std::string_view name) const {
  const auto answer = std::make_shared<std::optional<std::string>>();
  if (!Read(pid, [answer, proc = proc_, pid, wanted = std::string(name)] {
        *answer = proc.Environment(pid, wanted);
      }))
    return std::nullopt;
  return std::move(*answer);
}

}  // namespace gpuman::base
