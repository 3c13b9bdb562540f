#include "sim/cuda/address_space.h"

#include <vector>

namespace gpuman::sim::cuda {

const Block* AddressSpace::BlockAt(std::uint64_t address) const {
  auto at = blocks_.upper_bound(address);
  if (at == blocks_.begin()) return nullptr;
  --at;
  return address < at->second.end ? &at->second : nullptr;
}

const Allocation* AddressSpace::AllocationAt(std::uint64_t address) const {
  auto at = allocations_.upper_bound(address);
  if (at == allocations_.begin()) return nullptr;
  --at;
  return address < at->second.end() ? &at->second : nullptr;
}

bool AddressSpace::Reserved(std::uint64_t begin, std::uint64_t size) const {
  auto at = reservations_.upper_bound(begin);
  if (at == reservations_.begin()) return false;
  --at;
  return begin - at->first < at->second && size <= at->second - (begin - at->first);
}

void AddressSpace::AddBlock(Block block) {
  const std::unique_lock lock(mutex_);
  const std::uint64_t begin = block.begin;
  blocks_[begin] = std::move(block);
}

std::optional<Block> AddressSpace::TakeBlock(std::uint64_t begin) {
  const std::unique_lock lock(mutex_);
  auto node = blocks_.extract(begin);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

std::optional<Block> AddressSpace::FindBlock(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const Block* const block = BlockAt(address);
  return block != nullptr ? std::optional(*block) : std::nullopt;
}

void AddressSpace::AddAllocation(Allocation allocation) {
  const std::unique_lock lock(mutex_);
  allocation.id = next_id_++;
  allocations_[allocation.begin] = allocation;
}

std::optional<Allocation> AddressSpace::TakeAllocation(std::uint64_t begin) {
  const std::unique_lock lock(mutex_);
  const auto node = allocations_.extract(begin);
  return node.empty() ? std::nullopt : std::optional(node.mapped());
}

std::optional<Allocation> AddressSpace::FindAllocation(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const Allocation* const allocation = AllocationAt(address);
  return allocation != nullptr ? std::optional(*allocation) : std::nullopt;
}

void AddressSpace::AddReservation(std::uint64_t begin, std::uint64_t size) {
  const std::unique_lock lock(mutex_);
  reservations_[begin] = size;
}

bool AddressSpace::TakeReservation(std::uint64_t begin, std::uint64_t size) {
  const std::unique_lock lock(mutex_);
  const auto at = reservations_.find(begin);
  if (at == reservations_.end() || at->second != size) return false;
  const auto block = blocks_.lower_bound(begin);
  if (block != blocks_.end() && block->first < begin + size) return false;
  reservations_.erase(at);
  return true;
}

bool AddressSpace::WholeMappings(std::uint64_t begin, std::uint64_t size,
                                 std::vector<std::uint64_t>& mapped) const {
  const std::shared_lock lock(mutex_);
  if (!Reserved(begin, size)) return false;
  const Block* const first = BlockAt(begin);
  if (first != nullptr && first->begin != begin) return false;
  for (auto at = blocks_.lower_bound(begin); at != blocks_.end() && at->first < begin + size; ++at) {
    if (at->second.end > begin + size) return false;
    mapped.push_back(at->first);
  }
  return true;
}

bool AddressSpace::SetAccess(std::uint64_t begin, std::uint64_t size, std::uint32_t device_bit, bool read,
                             bool write) {
  const std::unique_lock lock(mutex_);
  const auto first = blocks_.find(begin);
  std::uint64_t reached = begin;
  for (auto at = first; at != blocks_.end() && reached < begin + size; ++at) {
    if (at->first != reached || at->second.kind != MemoryKind::kVirtual) return false;
    reached = at->second.end;
  }
  if (reached != begin + size) return false;
  for (auto at = first; at != blocks_.end() && at->first < begin + size; ++at) {
    Block& block = at->second;
    block.readers = read ? block.readers | device_bit : block.readers & ~device_bit;
    block.writers = write ? block.writers | device_bit : block.writers & ~device_bit;
  }
  return true;
}

AddressSpace::Lookup AddressSpace::Check(std::uint64_t begin, std::uint64_t size, bool write) const {
  const std::shared_lock lock(mutex_);
  const std::uint64_t end = begin + size;
  if (end < begin) return Lookup::kBad;
  for (std::uint64_t at = begin; at < end;) {
    const Allocation* const allocation = AllocationAt(at);
    if (allocation == nullptr) {
      if (at != begin || Reserved(at, 1)) return Lookup::kBad;
      const auto next = allocations_.upper_bound(at);  // host memory that runs into ours is also bad
      return next != allocations_.end() && next->first < end ? Lookup::kBad : Lookup::kUnknown;
    }
    if (allocation->kind != MemoryKind::kVirtual)
      return end <= allocation->end() ? Lookup::kGood : Lookup::kBad;
    const Block* const block = BlockAt(at);
    if (block == nullptr || (write ? block->writers : block->readers) == 0) return Lookup::kBad;
    at = allocation->end();
  }
  return Lookup::kGood;
}

}  // namespace gpuman::sim::cuda
