#include "device/worker.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "driver/nvml.h"

namespace gpuman::device {

struct Worker::Core {
  explicit Core(Post to) : post(std::move(to)) {}
  const Post post;
  std::mutex mutex;  // guards what follows
  std::condition_variable idle;
  int running = 0;
  bool stopped = false;
};

namespace {

constexpr base::Millis kPatience{2000};

// Loads the driver only for this work: while the daemon samples, that only counts one more user of the
// library; and nothing here keeps a driver that is to be unloaded.
void RunWith(const Worker::Work& work) {
  const auto nvml = driver::Nvml::Load();
  if (nvml) return work(nvml->get(), nullptr);
  const base::Error error = nvml.error();
  work(nullptr, &error);
}

}  // namespace

Worker::Worker(Post post) : core_(std::make_shared<Core>(std::move(post))) {}

Worker::~Worker() { (void)Stop(kPatience); }

void Worker::Do(Work work, std::function<void()> then) {
  {
    const std::lock_guard lock(core_->mutex);
    if (core_->stopped) return;
    ++core_->running;
  }
  const auto run = [core = core_, work = std::move(work), then = std::move(then)](bool on_thread) mutable {
    if (on_thread) {
      RunWith(work);
    } else {
      const base::Error error{base::ErrorCode::kExhausted,
                              "the system gives no thread to call the driver on"};
      work(nullptr, &error);
    }
    const std::lock_guard lock(core->mutex);
    --core->running;
    if (!core->stopped) core->post(std::move(then));
    core->idle.notify_all();
  };
  try {
    std::thread thread(run, true);
    pthread_setname_np(thread.native_handle(), "gpuman-device");
    thread.detach();
  } catch (const std::system_error&) {
    auto here = run;
    here(false);
  }
}

bool Worker::Stop(base::Millis patience) {
  std::unique_lock lock(core_->mutex);
  core_->stopped = true;
  return core_->idle.wait_for(lock, patience, [this] { return core_->running == 0; });
}

}  // namespace gpuman::device
