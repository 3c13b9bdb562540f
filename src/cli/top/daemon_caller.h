// Asks the daemon on threads of its own, so that a slow daemon does not hold up keys: one thread for the
// status, one for the page of a job and for what was recorded, one for actions, which may take as long as a
// job needs to leave its GPU.
//
// Thread-safe are fd and Take; all others are for the thread that made the object. The destructor ends the
// exchanges that are under way; what the daemon has begun goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "api/http.h"
#include "base/fd.h"
#include "cli/top/process_facts.h"
#include "cli/top/update.h"

namespace gpuman::cli::top {

// A snapshot of the daemon at `socket`.
base::Result<Snapshot> TakeSnapshot(const std::filesystem::path& socket, const AskStatus& ask,
                                    ProcessReader& reader, const api::HttpOptions& options);

class DaemonCaller {
 public:
  explicit DaemonCaller(std::filesystem::path socket);
  ~DaemonCaller();
  DaemonCaller(const DaemonCaller&) = delete;
  DaemonCaller& operator=(const DaemonCaller&) = delete;

  void Ask(const AskStatus& ask);
  void Ask(const AskJob& ask);
  void Ask(const AskHistory& ask);
  void Ask(const PerformAction& action);

  // Readable while there is an answer to take.
  int fd() const { return ready_.get(); }
  std::vector<Event> Take();

 private:
  // A thread that makes one call after the other.
  struct CallThread {
    std::deque<std::function<Event()>> calls;
    std::thread thread;
  };

  void Post(CallThread& thread, std::function<Event()> call);
  void Run(CallThread& thread);
  api::HttpOptions Options() const;

  std::filesystem::path socket_;
  ProcessReader reader_;  // used by the thread of status_ alone
  base::Fd ready_, stop_;
  std::mutex mutex_;
  std::condition_variable posted_;
  bool stopping_ = false;
  std::vector<Event> answers_;
  CallThread status_, job_, actions_;  // last: their threads use everything above
};

}  // namespace gpuman::cli::top
