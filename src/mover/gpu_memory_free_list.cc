#include "mover/gpu_memory_free_list.h"

namespace gpuman::mover {

std::optional<GpuMemoryFreeList::Block> GpuMemoryFreeList::Surplus(Bucket& bucket) {
  if (bucket.kept.size() <= bucket.expected) return std::nullopt;
  std::optional<Block> surplus = std::move(bucket.kept.back());
  bucket.kept.pop_back();
  return surplus;
}

void GpuMemoryFreeList::Expect(int gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++buckets_[{gpu, bytes}].expected;
}

std::optional<GpuMemoryFreeList::Block> GpuMemoryFreeList::Take(int gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[{gpu, bytes}];
  if (bucket.expected > 0) --bucket.expected;
  if (bucket.kept.empty()) return std::nullopt;
  std::optional<Block> block = std::move(bucket.kept.back());
  bucket.kept.pop_back();
  return block;
}

void GpuMemoryFreeList::Cancel(int gpu, std::uint64_t bytes) {
  std::optional<Block> dropped;  // freed outside the lock: the driver takes some time
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[{gpu, bytes}];
  if (bucket.expected > 0) --bucket.expected;
  dropped = Surplus(bucket);
}

void GpuMemoryFreeList::Leave(DeviceMemory memory, base::Fd file) {
  if (!memory || !file.ok()) return;
  const std::pair key{memory.gpu(), memory.bytes()};
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[key];
  if (bucket.kept.size() < bucket.expected) bucket.kept.push_back({std::move(memory), std::move(file)});
}

bool GpuMemoryFreeList::Empty() {
  std::vector<Block> dropped;
  const std::lock_guard lock(mutex_);
  for (auto& [key, bucket] : buckets_) {
    for (Block& block : bucket.kept) dropped.push_back(std::move(block));
    bucket.kept.clear();
  }
  return !dropped.empty();
}

}  // namespace gpuman::mover
