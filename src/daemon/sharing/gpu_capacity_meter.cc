#include "daemon/sharing/gpu_capacity_meter.h"

#include <algorithm>
#include <optional>

#include "daemon/core/core.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {
namespace {

// The memory of other processes changes all the time. The scheduler is told only of changes of at least this
// size.
constexpr base::Bytes kMinCapacityChange = base::MiB(16);
constexpr std::size_t kReadings = 7;

// What a context takes, measured on an H200, and a little more; on small GPUs an eighth of their memory. It
// counts until one was seen: jobs that took this room would leave the mover none for its own context, and
// nothing could leave.
base::Bytes AssumedContext(base::Bytes whole) {
  return std::min(base::MiB(640), base::Bytes{whole.count / 8});
}

}  // namespace

// The GPU's memory in use that belongs to no process. `shown`: the present figure. The driver shows managed
// memory in it, too, so while there is any, the earlier figures hold.
base::Bytes GpuCapacityMeter::DriverOf(const std::string& gpu, base::Bytes shown) {
  const base::Bytes managed = shims_.ManagedOn(gpu);
  auto& readings = driver_[gpu];
  if (managed.count > 0 && readings.empty()) return shown - managed;
  // The median of several figures is used, because used memory and processes are not read at the same moment.
  if (managed.count == 0) readings.push_back(shown);
  if (readings.size() > kReadings) readings.pop_front();
  auto sorted = std::vector(readings.begin(), readings.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  return sorted[sorted.size() / 2];
}

std::vector<share::event::CapacityChanged> GpuCapacityMeter::Update(
    const Tenants& tenants, const share::SchedulerSettings& settings) {
  std::set<pid_t> movers;
  for (const auto& [gpu, users] : tenants.users)
    for (const auto& user : users)
      if (const auto pid = suspension_.movers().MoverPid(user)) movers.insert(*pid);
  std::vector<share::event::CapacityChanged> changed;
  for (const auto& [gpu, status] : core_.guard().Statuses()) {
    const auto users = tenants.users.find(gpu);
    if (users == tenants.users.end() || !status.sample.memory) continue;
    base::Bytes others, all;
    for (const auto& process : status.processes) {
      const base::Bytes bytes = process.memory.value_or(base::Bytes{});
      all += bytes;
      const bool shared =
          (process.job && tenants.taking_part.contains(*process.job)) || movers.contains(process.id.pid);
      if (!shared) others += bytes;
    }
    const base::Bytes whole = status.gpu.memory;
    const base::Bytes driver = DriverOf(gpu, whole - status.sample.memory->free - all);
    const base::Bytes known_context = suspension_.readings().ContextCostOf(gpu);
    const base::Bytes context = known_context.count > 0 ? known_context : AssumedContext(whole);
    const base::Bytes contexts{context.count * users->second.size()};
    // Where only one job shares the GPU, the guard alone holds the reserve.
    const base::Bytes reserve = tenants.jobs.at(gpu) > 1 ? core_.guard().ReserveOf(gpu) : base::Bytes{};
    const base::Bytes free = whole - reserve - driver - others - contexts;
    const base::Bytes capacity = std::min(free, share::CapacityOf(settings, gpu, whole));
    const auto known = capacities_.find(gpu);
    if (known != capacities_.end()) {
      const base::Bytes change =
          capacity > known->second ? capacity - known->second : known->second - capacity;
      if (change < kMinCapacityChange) continue;
    }
    capacities_[gpu] = capacity;
    changed.push_back({gpu, capacity});
  }
  return changed;
}

}  // namespace gpuman::daemon
