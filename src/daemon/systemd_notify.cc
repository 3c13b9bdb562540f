#include "daemon/systemd_notify.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/fd.h"
#include "base/parse_number.h"

namespace gpuman::daemon {
namespace {

// Sends one datagram to the socket that systemd named; '@' stands for the abstract name space.
void Notify(std::string_view text) {
  const char* place = std::getenv("NOTIFY_SOCKET");
  if (place == nullptr) return;
  const std::string_view path = place;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() < 2 || path.size() > sizeof address.sun_path) return;
  if (path.front() != '/' && path.front() != '@') return;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';
  const base::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return;
  // A service manager that does not listen is no reason to stop.
  (void)::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size()));
}

std::optional<long long> NumberFrom(const char* variable) {
  const char* const text = std::getenv(variable);
  const auto value = text != nullptr ? base::ParseNumber<long long>(text) : std::nullopt;
  return value && *value > 0 ? value : std::nullopt;
}

}  // namespace

void NotifyReady() { Notify("READY=1"); }
void NotifyStopping() { Notify("STOPPING=1"); }
void NotifyReloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  Notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000LL + now.tv_nsec / 1000));
}
void NotifyAlive() { Notify("WATCHDOG=1"); }

std::optional<std::chrono::microseconds> WatchdogPeriod() {
  const auto period = NumberFrom("WATCHDOG_USEC");
  if (!period) return std::nullopt;
  if (std::getenv("WATCHDOG_PID") != nullptr && NumberFrom("WATCHDOG_PID") != ::getpid()) return std::nullopt;
  return std::chrono::microseconds(*period);
}

}  // namespace gpuman::daemon
