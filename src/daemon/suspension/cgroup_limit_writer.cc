#include "daemon/suspension/cgroup_limit_writer.h"

#include <pthread.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuman::daemon {

struct CgroupLimitWriter::Core {
  explicit Core(Write how) : write(std::move(how)) {}

  // Writes until the last written limit is the wanted one.
  void Follow(const std::filesystem::path& cgroup) {
    std::unique_lock lock(mutex);
    for (;;) {
      const auto limit = wanted.at(cgroup);
      lock.unlock();
      write(cgroup, limit);
      lock.lock();
      if (wanted.at(cgroup) == limit || stopped) break;
    }
    wanted.erase(cgroup);
    idle.notify_all();
  }

  const Write write;
  std::mutex mutex;  // guards the members below
  std::condition_variable idle;
  std::map<std::filesystem::path, std::optional<base::Bytes>> wanted;  // for cgroups with a thread
  bool stopped = false;
};

CgroupLimitWriter::CgroupLimitWriter(Write write) : core_(std::make_shared<Core>(std::move(write))) {}

CgroupLimitWriter::~CgroupLimitWriter() { (void)Stop(base::Millis{0}); }

void CgroupLimitWriter::Set(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit) {
  std::unique_lock lock(core_->mutex);
  if (core_->stopped) return;
  const auto under_way = core_->wanted.find(cgroup);
  if (under_way != core_->wanted.end()) under_way->second = limit;
  if (!limit) {
    lock.unlock();
    return core_->write(cgroup, limit);
  }
  if (under_way != core_->wanted.end()) return;
  core_->wanted.emplace(cgroup, limit);
  try {
    std::thread thread([core = core_, cgroup] { core->Follow(cgroup); });
    ::pthread_setname_np(thread.native_handle(), "gpuman-memory");
    thread.detach();
  } catch (const std::system_error&) {
    core_->wanted.erase(cgroup);  // no thread could start: no limit is better than a blocked loop
  }
}

bool CgroupLimitWriter::Stop(base::Millis patience) {
  std::unique_lock lock(core_->mutex);
  core_->stopped = true;
  return core_->idle.wait_for(lock, patience, [this] { return core_->wanted.empty(); });
}

}  // namespace gpuman::daemon
