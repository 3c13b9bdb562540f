#include "sim/cuda/pool.h"

#include <algorithm>

#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kStep = 512;

}  // namespace

MemoryPool::MemoryPool(Driver& driver, Device& device, bool is_default, Location location)
    : driver_(driver), device_(device), is_default_(is_default), location_(location) {
  switches_[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
  switches_[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
  switches_[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
}

MemoryPool::~MemoryPool() {
  TrimTo(0);
  if (span_ != 0) FreeAddresses(base_, span_);
}

bool MemoryPool::TakeRange(std::uint64_t size, std::uint64_t& offset) {
  const auto taken = free_.Take(size);
  if (taken) offset = *taken;
  return taken.has_value();
}

bool MemoryPool::Grow(std::uint64_t size, std::uint64_t& offset) {
  if (span_ == 0) {
    span_ = RoundUp(2 * device_.Capacity(), kPoolPiece);
    base_ = ReserveAddresses(span_, kPoolPiece);
    if (base_ == 0) {
      span_ = 0;
      return false;
    }
    unbacked_.Give(0, span_);
  }
  // Grows from the last piece if its end is free, else takes new pieces.
  const std::uint64_t end = pieces_.empty() ? 0 : *pieces_.rbegin() + kPoolPiece;
  const std::uint64_t tail = free_.TailBefore(end);
  std::uint64_t begin = end;
  std::uint64_t bytes = RoundUp(size > tail ? size - tail : size, kPoolPiece);
  if (!unbacked_.IsFree(begin, bytes)) {
    bytes = RoundUp(size, kPoolPiece);
    const auto location = unbacked_.Take(bytes);
    if (!location) return false;
    begin = *location;
  } else {
    unbacked_.TakeExactly(begin, bytes);
  }
  for (std::uint64_t piece = begin; piece < begin + bytes; piece += kPoolPiece) {
    auto physical = Physical::Allocate(driver_.heap, is_on_host() ? nullptr : &device_, kPoolPiece,
                                       Physical::Sharing::kPrivate);
    if (physical == nullptr || !MapAt(base_ + piece, kPoolPiece, *physical, 0)) {
      unbacked_.Give(piece, begin + bytes - piece);
      return false;  // the pieces that it got so far stay free
    }
    driver_.memory.AddBlock({.begin = base_ + piece,
                             .end = base_ + piece + kPoolPiece,
                             .kind = MemoryKind::kPool,
                             .device = &device_,
                             .physical = std::move(physical)});
    pieces_.insert(piece);
    free_.Give(piece, kPoolPiece);
    reserved_ += kPoolPiece;
  }
  reserved_high_ = std::max(reserved_high_, reserved_);
  return TakeRange(size, offset);
}

std::vector<Mark> MemoryPool::TakePendingFrees() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

CUresult MemoryPool::Allocate(Context& context, std::uint64_t size, CUdeviceptr& address) {
  const std::uint64_t step = RoundUp(std::max<std::uint64_t>(size, 1), kStep);
  if (step > 2 * device_.Capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t offset = 0;
  bool found = false;
  {
    const std::lock_guard lock(mutex_);
    found = TakeRange(step, offset);
  }
  if (!found) {
    for (const Mark& mark : TakePendingFrees()) mark.Wait();
    const std::lock_guard lock(mutex_);
    found = TakeRange(step, offset) || Grow(step, offset);
  }
  if (!found) {
    TrimToThreshold();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  {
    const std::lock_guard lock(mutex_);
    live_ += size;
    used_ += size;
    used_high_ = std::max(used_high_, used_);
    address = base_ + offset;
  }
  driver_.memory.AddAllocation({.begin = address,
                                .size = size,
                                .kind = MemoryKind::kPool,
                                .device = &device_,
                                .context = &context,
                                .pool = this});
  return CUDA_SUCCESS;
}

void MemoryPool::Give(CUdeviceptr address, std::uint64_t size) {
  bool empty = false;
  {
    const std::lock_guard lock(mutex_);
    free_.Give(address - base_, RoundUp(std::max<std::uint64_t>(size, 1), kStep));
    live_ -= size;
    empty = destroyed_ && live_ == 0;
  }
  if (empty) TrimTo(0);
}

void MemoryPool::AddPendingFree(Mark mark, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  used_ -= size;
  std::erase_if(pending_, [](const Mark& earlier) { return earlier.Reached(); });
  pending_.push_back(std::move(mark));
}

void MemoryPool::TrimTo(std::uint64_t keep) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> unused;
  for (auto at = pieces_.rbegin(); at != pieces_.rend(); ++at) {
    if (free_.IsFree(*at, kPoolPiece)) unused.push_back(*at);
  }
  for (const std::uint64_t piece : unused) {
    if (reserved_ <= keep) return;
    free_.TakeExactly(piece, kPoolPiece);
    pieces_.erase(piece);
    std::optional<Block> block;  // its memory is freed after the lock is released
    const std::unique_lock execution(driver_.execution);
    block = driver_.memory.TakeBlock(base_ + piece);
    UnmapAt(base_ + piece, kPoolPiece);
    unbacked_.Give(piece, kPoolPiece);
    reserved_ -= kPoolPiece;
  }
}

void MemoryPool::TrimToThreshold() {
  std::uint64_t threshold = 0;
  {
    const std::lock_guard lock(mutex_);
    threshold = destroyed_ ? 0 : threshold_;
  }
  TrimTo(threshold);
}

void MemoryPool::Destroy() {
  {
    const std::lock_guard lock(mutex_);
    destroyed_ = true;
  }
  TrimTo(0);
}

CUresult MemoryPool::GetAttribute(CUmemPool_attribute attribute, void* value) {
  const std::lock_guard lock(mutex_);
  auto* const bytes = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *bytes = threshold_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *bytes = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *bytes = reserved_high_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *bytes = used_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *bytes = used_high_;
      return CUDA_SUCCESS;
    default:
      break;
  }
  const auto found = switches_.find(attribute);
  if (found == switches_.end()) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(value) = found->second;
  return CUDA_SUCCESS;
}

CUresult MemoryPool::SetAttribute(CUmemPool_attribute attribute, const void* value) {
  const std::lock_guard lock(mutex_);
  const auto* const bytes = static_cast<const cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      threshold_ = *bytes;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (*bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      reserved_high_ = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      used_high_ = used_;
      return CUDA_SUCCESS;
    default:
      break;
  }
  const auto found = switches_.find(attribute);
  if (found == switches_.end()) return CUDA_ERROR_INVALID_VALUE;
  found->second = *static_cast<const int*>(value);
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
