#include "mover/free_list.h"

namespace gpuman::mover {

std::optional<FreeList::Block> FreeList::Surplus(Bucket& bucket) {
  if (bucket.kept.size() <= bucket.expected) return std::nullopt;
  std::optional<Block> surplus = std::move(bucket.kept.back());
  bucket.kept.pop_back();
  return surplus;
}

void FreeList::Expect(int gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++buckets_[{gpu, bytes}].expected;
}

std::optional<FreeList::Block> FreeList::Take(int gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[{gpu, bytes}];
  if (bucket.expected > 0) --bucket.expected;
  if (bucket.kept.empty()) return std::nullopt;
  std::optional<Block> block = std::move(bucket.kept.back());
  bucket.kept.pop_back();
  return block;
}

void FreeList::Cancel(int gpu, std::uint64_t bytes) {
  std::optional<Block> dropped;  // freed outside the lock: the driver takes some time
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[{gpu, bytes}];
  if (bucket.expected > 0) --bucket.expected;
  dropped = Surplus(bucket);
}

void FreeList::Leave(Memory memory, base::Fd file) {
  if (!memory || !file.ok()) return;
  const std::pair key{memory.gpu(), memory.bytes()};
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[key];
  if (bucket.kept.size() < bucket.expected) bucket.kept.push_back({std::move(memory), std::move(file)});
}

bool FreeList::Empty() {
  std::vector<Block> dropped;
  const std::lock_guard lock(mutex_);
  for (auto& [key, bucket] : buckets_) {
    for (Block& block : bucket.kept) dropped.push_back(std::move(block));
    bucket.kept.clear();
  }
  return !dropped.empty();
}

}  // namespace gpuman::mover
