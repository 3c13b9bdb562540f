#include "sim/state/sharing.h"

#include <algorithm>
#include <optional>

#include "sim/state/memory.h"

namespace gpuman::sim {
namespace {

bool IsLive(const Shared& shared, const SharedMemory::Holder& holder) {
  const std::uint64_t owner = holder.owner.load();
  return owner != 0 && shared.processes[holder.slot.load() % kMaxProcesses].owner.load() == owner;
}

unsigned LiveHolders(const Shared& shared, const SharedMemory& memory) {
  return static_cast<unsigned>(std::count_if(memory.holders.begin(), memory.holders.end(),
                                             [&](const auto& holder) { return IsLive(shared, holder); }));
}

template <typename Visit>
void ForEach(const Shared& shared, unsigned gpu, Visit visit) {
  const std::uint32_t limit = shared.sharing_limit.load();
  for (std::uint32_t i = 0; i < limit; ++i) {
    const SharedMemory& memory = shared.sharing[i];
    if (memory.inode.load() != 0 && memory.gpu.load() == gpu) visit(memory);
  }
}

// The entry of this memory, or an unused entry. The exporter comes first and alone.
SharedMemory* EntryOf(Shared& shared, std::uint64_t inode) {
  const std::uint32_t limit = shared.sharing_limit.load();
  for (std::uint32_t i = 0; i < limit; ++i)
    if (shared.sharing[i].inode.load() == inode && LiveHolders(shared, shared.sharing[i]) > 0)
      return &shared.sharing[i];
  for (std::uint32_t i = 0; i < kMaxShared; ++i) {
    SharedMemory& entry = shared.sharing[i];
    std::uint64_t stale = entry.inode.load();
    if (stale != 0 && LiveHolders(shared, entry) > 0) continue;
    if (!entry.inode.compare_exchange_strong(stale, inode)) continue;
    for (auto& holder : entry.holders) holder.owner.store(0);
    std::uint32_t now = shared.sharing_limit.load();
    while (now < i + 1 && !shared.sharing_limit.compare_exchange_weak(now, i + 1)) {
    }
    return &entry;
  }
  return nullptr;
}

}  // namespace

void BeginSharing(Shared& shared, unsigned slot, unsigned gpu, std::uint64_t inode, std::uint64_t bytes) {
  const std::uint64_t owner = shared.processes[slot].owner.load();
  SharedMemory* const entry = EntryOf(shared, inode);
  if (entry == nullptr) return;
  entry->units.store(UnitsForBytes(bytes));
  entry->gpu.store(gpu);
  for (auto& holder : entry->holders) {
    std::uint64_t free = holder.owner.load();
    if (IsLive(shared, holder) || !holder.owner.compare_exchange_strong(free, owner)) continue;
    holder.slot.store(slot);
    return;
  }
}

void EndSharing(Shared& shared, unsigned slot, std::uint64_t inode) {
  const std::uint64_t owner = shared.processes[slot].owner.load();
  const std::uint32_t limit = shared.sharing_limit.load();
  for (std::uint32_t i = 0; i < limit; ++i) {
    SharedMemory& entry = shared.sharing[i];
    if (entry.inode.load() != inode) continue;
    for (auto& holder : entry.holders) {
      std::uint64_t own = owner;
      holder.owner.compare_exchange_strong(own, 0);
    }
  }
}

std::uint64_t CountedAgain(const Shared& shared, unsigned gpu) {
  std::uint64_t units = 0;
  ForEach(shared, gpu, [&](const SharedMemory& memory) {
    const unsigned holders = LiveHolders(shared, memory);
    if (holders > 1) units += (holders - 1) * memory.units.load();
  });
  return units;
}

std::uint64_t PassedOn(const Shared& shared, std::uint64_t owner, unsigned gpu) {
  std::uint64_t units = 0;
  ForEach(shared, gpu, [&](const SharedMemory& memory) {
    std::optional<std::uint64_t> own;
    std::uint64_t youngest = 0;
    for (const auto& holder : memory.holders) {
      if (!IsLive(shared, holder)) continue;
      const auto& there = shared.processes[holder.slot.load() % kMaxProcesses].gpu[gpu];
      const std::uint64_t since = there.contexts.load() != 0 ? there.context_created_us.load() : 0;
      if (holder.owner.load() == owner) own = since;
      youngest = std::max(youngest, since);
    }
    if (own && *own < youngest) units += memory.units.load();
  });
  return units;
}

}  // namespace gpuman::sim
