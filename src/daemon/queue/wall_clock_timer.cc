#include "daemon/queue/wall_clock_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <system_error>
#include <utility>

namespace gpuman::daemon {
namespace {

int OpenTimer() {
  const int fd = ::timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
  return fd;
}

itimerspec SpecOf(std::optional<base::WallTime> at) {
  itimerspec spec{};
  if (!at) {
    spec.it_value.tv_sec = std::numeric_limits<std::int32_t>::max();  // the year 2038
    if constexpr (sizeof(time_t) > 4) spec.it_value.tv_sec *= 4;      // 2242
    return spec;
  }
  const auto since = at->time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  spec.it_value.tv_sec = static_cast<time_t>(std::max<std::int64_t>(seconds.count(), 0));
  spec.it_value.tv_nsec = static_cast<long>(std::chrono::nanoseconds(since - seconds).count());
  if (spec.it_value.tv_sec == 0 && spec.it_value.tv_nsec == 0) spec.it_value.tv_nsec = 1;  // 0 would disarm
  return spec;
}

}  // namespace

struct WallClockTimer::State {
  State(boost::asio::io_context& loop, std::function<void()> then)
      : descriptor(loop, OpenTimer()), on_time(std::move(then)) {}
  boost::asio::posix::stream_descriptor descriptor;
  std::function<void()> on_time;
  bool is_over = false;
};

WallClockTimer::WallClockTimer(boost::asio::io_context& loop, std::function<void()> on_time)
    : state_(std::make_shared<State>(loop, std::move(on_time))) {
  SetTime({});
  Wait(state_);
}

WallClockTimer::~WallClockTimer() {
  state_->is_over = true;
  boost::system::error_code ignored;
  state_->descriptor.close(ignored);
}

void WallClockTimer::SetTime(std::optional<base::WallTime> at) {
  const auto spec = SpecOf(at);
  constexpr int kFlags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
  if (::timerfd_settime(state_->descriptor.native_handle(), kFlags, &spec, nullptr) == 0 ||
      errno != ECANCELED)
    return;
  // The clock was set since the last read of the timer, and the kernel does not tell that any more, so this
  // tells it. The new time holds.
  boost::asio::post(state_->descriptor.get_executor(), [state = state_] {
    if (!state->is_over) state->on_time();
  });
}

void WallClockTimer::Wait(const std::shared_ptr<State>& state) {
  state->descriptor.async_wait(
      boost::asio::posix::stream_descriptor::wait_read, [state](boost::system::error_code error) {
        if (error || state->is_over) return;
        std::uint64_t times = 0;
        const auto got = ::read(state->descriptor.native_handle(), &times, sizeof times);
        const bool clock_was_set = got < 0 && errno == ECANCELED;
        Wait(state);
        if (got > 0 || clock_was_set) state->on_time();
      });
}

}  // namespace gpuman::daemon
