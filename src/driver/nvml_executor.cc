#include "driver/nvml_executor.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "driver/nvml.h"

namespace gpuman::driver {
namespace {

constexpr base::Millis kPatience{2000};

// Loads the driver only for this work. While the daemon samples, the load only counts one more user of the
// library. Between two pieces of work the executor does not keep the driver from being unloaded.
void RunWithDriver(const NvmlExecutor::Work& work) {
  const auto nvml = Nvml::Load();
  if (nvml) return work(nvml->get());
  work(base::Fail(nvml.error()));
}

}  // namespace

struct NvmlExecutor::Core {
  struct Task {
    Work work;
    std::function<void()> then;
  };
  explicit Core(base::Executor to) : to_loop(std::move(to)) {}

  // Does the waiting work until none is left. `on_thread` is false if the system gave no thread: then
  // the work gets that error.
  void Serve(bool on_thread) {
    std::unique_lock lock(mutex);
    while (!waiting.empty() && !stopped) {
      Task task = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      if (on_thread)
        RunWithDriver(task.work);
      else
        task.work(
            base::Fail(base::ErrorCode::kExhausted, "the system gives no thread to call the driver on"));
      lock.lock();
      if (!stopped) to_loop(std::move(task.then));  // after Stop there may be no loop
      // The work is destroyed without the mutex, since what it owns may be large.
      lock.unlock();
      task = {};
      lock.lock();
    }
    --threads;
    idle.notify_all();
  }

  const base::Executor to_loop;
  std::mutex mutex;  // guards the members below
  std::condition_variable idle;
  std::deque<Task> waiting;
  int threads = 0;
  bool stopped = false;
};

NvmlExecutor::NvmlExecutor(Order order, base::Executor to_loop)
    : order_(order), core_(std::make_shared<Core>(std::move(to_loop))) {}

NvmlExecutor::~NvmlExecutor() { (void)Stop(kPatience); }

void NvmlExecutor::Run(Work work, std::function<void()> then) {
  {
    const std::lock_guard lock(core_->mutex);
    if (core_->stopped) return;
    core_->waiting.push_back({std::move(work), std::move(then)});
    if (order_ == Order::kInOrder && core_->threads > 0) return;  // that thread will do this work
    ++core_->threads;
  }
  try {
    std::thread thread([core = core_] { core->Serve(true); });
    pthread_setname_np(thread.native_handle(), "gpuman-nvml");
    thread.detach();
  } catch (const std::system_error&) {
    core_->Serve(false);
  }
}

bool NvmlExecutor::Stop(base::Millis patience) {
  std::unique_lock lock(core_->mutex);
  core_->stopped = true;
  return core_->idle.wait_for(lock, patience, [this] { return core_->threads == 0; });
}

}  // namespace gpuman::driver
