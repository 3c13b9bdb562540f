// What there is of the GPUs for shared jobs.
#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/sharing/share_controller.h"

namespace gpuman::daemon {
namespace {

// What processes beside the shared ones have changes all the time; smaller changes wait for a larger one.
constexpr base::Bytes kWorthTelling = base::MiB(16);
constexpr std::size_t kLooks = 7;

}  // namespace

// What of the GPU is no process's, as shown just now. Managed memory is shown so as well: while there is any,
// what was found before holds.
base::Bytes ShareController::DriverOf(const std::string& gpu, base::Bytes shown) {
  const base::Bytes managed = shims_.ManagedOn(gpu);
  auto& looks = driver_[gpu];
  if (managed.count > 0 && looks.empty()) return shown - managed;
  // The two figures are not of the same moment.
  if (managed.count == 0) looks.push_back(shown);
  if (looks.size() > kLooks) looks.pop_front();
  auto sorted = std::vector(looks.begin(), looks.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  return sorted[sorted.size() / 2];
}

// What is not the shared jobs' own: the guard's reserve, the driver's, other processes', the movers'
// contexts.
void ShareController::SetCapacities() {
  std::set<base::JobId> own;
  std::map<std::string, std::set<suspend::MoverUser>> users;
  std::map<std::string, int> tenants;
  for (const auto& [id, entry] : entries_) {
    if (entry.mode != Entry::Mode::kLent) own.insert(id);
    for (const auto& gpu : entry.job.gpus) {
      users[gpu].insert(entry.job.owner);
      ++tenants[gpu];
    }
  }
  std::set<pid_t> movers;
  for (const auto& [gpu, of_gpu] : users)
    for (const auto& user : of_gpu)
      if (const auto pid = movers_.MoverPid(user)) movers.insert(*pid);
  for (const auto& [gpu, status] : core_.guard().Statuses()) {
    if (!users.contains(gpu) || !status.sample.memory) continue;
    base::Bytes others, all;
    for (const auto& process : status.processes) {
      const base::Bytes bytes = process.memory.value_or(base::Bytes{});
      all += bytes;
      const bool shared = (process.job && own.contains(*process.job)) || movers.contains(process.id.pid);
      if (!shared) others += bytes;
    }
    const base::Bytes whole = status.gpu.memory;
    const base::Bytes driver = DriverOf(gpu, whole - status.sample.memory->free - all);
    const base::Bytes contexts{suspension_.readings().ContextCostOf(gpu).count * users.at(gpu).size()};
    // Where there are no turns to give, what becomes of the reserve is the guard's business.
    const base::Bytes reserve = tenants.at(gpu) > 1 ? core_.guard().ReserveOf(gpu) : base::Bytes{};
    const base::Bytes free = whole - reserve - driver - others - contexts;
    const base::Bytes capacity = std::min(free, share::CapacityOf(scheduler_.settings(), gpu, whole));
    const auto known = capacities_.find(gpu);
    if (known != capacities_.end()) {
      const base::Bytes change =
          capacity > known->second ? capacity - known->second : known->second - capacity;
      if (change < kWorthTelling) continue;
    }
    capacities_[gpu] = capacity;
    Feed(share::event::CapacityChanged{gpu, capacity});
  }
}

}  // namespace gpuman::daemon
