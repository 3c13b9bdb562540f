// Tells systemd that the service is ready, alive, stopping (sd_notify(3)); does nothing where there is none.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace gpuman::daemon {

void NotifyReady();
void NotifyStopping();
void NotifyReloading();
void NotifyStatus(const std::string& line);
// To be called more often than WatchdogPeriod().
void NotifyAlive();
// nullopt: nobody watches.
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace gpuman::daemon
