// Preloaded: the wall clock is off by the seconds in the file that SHIFTED_CLOCK names. A timer at a time of
// day follows it as the kernel's timers do: it expires by the shifted clock, and returns ECANCELED when the
// clock was set, which happens when another file replaces the named one. The monotonic clock, which no
// administrator can set, does not change.
#undef _FORTIFY_SOURCE  // glibc's headers would define read() themselves
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>

#define SHIFTED extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<int> timer{-1};  // the only timer at a time of day
std::atomic<bool> was_set{false};

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

long Shift() {
  const char* file = getenv("SHIFTED_CLOCK");
  const int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  char text[32]{};
  static const auto real = Real(&read, "read");
  const long shift = real(fd, text, sizeof text - 1) > 0 ? std::strtol(text, nullptr, 10) : 0;
  close(fd);
  return shift;
}

void Watch(const std::string& file) {
  static const auto settime = Real(&timerfd_settime, "timerfd_settime");
  const int fd = inotify_init1(IN_CLOEXEC);
  if (inotify_add_watch(fd, file.substr(0, file.rfind('/')).c_str(), IN_MOVED_TO) < 0) abort();
  char events[4096];
  while (read(fd, events, sizeof events) > 0) {
    was_set = true;
    const itimerspec now{{}, {0, 1}};
    settime(timer, 0, &now, nullptr);
  }
}

}  // namespace

SHIFTED int clock_gettime(clockid_t id, timespec* time) noexcept {
  static const auto real = Real(&clock_gettime, "clock_gettime");
  const int result = real(id, time);
  if (result == 0 && id == CLOCK_REALTIME) time->tv_sec += Shift();
  return result;
}

SHIFTED int timerfd_create(clockid_t id, int flags) noexcept {
  static const auto real = Real(&timerfd_create, "timerfd_create");
  const int fd = real(id, flags);
  const char* file = getenv("SHIFTED_CLOCK");
  if (fd >= 0 && id == CLOCK_REALTIME && file && timer.exchange(fd) < 0)
    std::thread(Watch, std::string(file)).detach();
  return fd;
}

SHIFTED int timerfd_settime(int fd, int flags, const itimerspec* spec, itimerspec* before) noexcept {
  static const auto real = Real(&timerfd_settime, "timerfd_settime");
  if (fd != timer || !(flags & TFD_TIMER_ABSTIME)) return real(fd, flags, spec, before);
  const bool told = was_set.exchange(false);
  auto shifted = *spec;
  shifted.it_value.tv_sec -= Shift();
  if (shifted.it_value.tv_sec < 0) shifted.it_value = {0, 1};
  if (real(fd, flags, &shifted, before) != 0) return -1;
  const itimerspec now{{}, {0, 1}};
  if (was_set) real(fd, 0, &now, nullptr);  // the clock was set meanwhile
  errno = ECANCELED;
  return told ? -1 : 0;
}

SHIFTED ssize_t read(int fd, void* buffer, size_t size) {
  static const auto real = Real(&read, "read");
  const auto got = real(fd, buffer, size);
  if (fd < 0 || fd != timer || !was_set.exchange(false)) return got;
  errno = ECANCELED;
  return -1;
}
