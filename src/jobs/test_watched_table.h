// The process table of the machine, for tests: it notes which threads list it, and it can hold a listing.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"

namespace gpuman::jobs {

class WatchedTable final : public base::ProcessTable {
 public:
  ~WatchedTable() override {
    if (releaser_.joinable()) releaser_.join();
  }

  std::optional<base::ProcessInfo> Find(pid_t pid) const override { return proc_.Find(pid); }
  std::vector<base::ProcessInfo> List() const override {
    {
      std::unique_lock lock(mutex_);
      ++listings_;
      threads_.insert(std::this_thread::get_id());
      waits_ = true;
      change_.notify_all();
      change_.wait(lock, [this] { return !held_; });
      waits_ = false;
    }
    return proc_.List();
  }
  std::optional<uid_t> Owner(pid_t pid) const override { return proc_.Owner(pid); }
  std::vector<std::string> CommandLine(pid_t pid) const override { return proc_.CommandLine(pid); }
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override {
    return proc_.Environment(pid, name);
  }
  std::optional<std::filesystem::path> Cgroup(pid_t pid) const override { return proc_.Cgroup(pid); }

  // The number of complete listings.
  int listings() const {
    const std::lock_guard lock(mutex_);
    return listings_;
  }
  bool WasReadOn(std::thread::id thread) const {
    const std::lock_guard lock(mutex_);
    return threads_.contains(thread);
  }

  // A thread that lists waits until Release.
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void AwaitHeld() const {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [this] { return waits_; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    change_.notify_all();
  }
  // Releases on another thread, while the caller waits for something else.
  void ReleaseSoon() {
    releaser_ = std::thread([this] { Release(); });
  }

 private:
  const base::ProcFs proc_;
  mutable std::mutex mutex_;
  mutable std::condition_variable change_;
  mutable int listings_ = 0;
  mutable std::set<std::thread::id> threads_;
  mutable bool waits_ = false;
  bool held_ = false;
  std::thread releaser_;
};

}  // namespace gpuman::jobs
