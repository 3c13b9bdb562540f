#include "shim/accounting/regions.h"

#include <sys/mman.h>

#include <cstring>

namespace gpuman::shim {

std::size_t Regions::Before(std::uint64_t address) const {
  std::size_t low = 0, high = size_;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (entries_[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool Regions::Grow() {
  constexpr std::size_t kFirst = 256;
  const std::size_t capacity = capacity_ == 0 ? kFirst : 2 * capacity_;
  void* const memory =
      ::mmap(nullptr, capacity * sizeof(Region), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  ::madvise(memory, capacity * sizeof(Region), MADV_DONTFORK);
  if (size_ != 0) std::memcpy(memory, entries_, size_ * sizeof(Region));
  if (entries_ != nullptr) ::munmap(entries_, capacity_ * sizeof(Region));
  entries_ = static_cast<Region*>(memory);
  capacity_ = capacity;
  return true;
}

bool Regions::Add(const Region& region) {
  const std::size_t place = Before(region.address);
  if (region.bytes == 0 || region.bytes > UINT64_MAX - region.address) return false;
  if (place > 0 && region.address - entries_[place - 1].address < entries_[place - 1].bytes) return false;
  if (place < size_ && entries_[place].address - region.address < region.bytes) return false;
  if (size_ == capacity_ && !Grow()) return false;
  std::memmove(entries_ + place + 1, entries_ + place, (size_ - place) * sizeof(Region));
  entries_[place] = region;
  ++size_;
  bytes_[region.device] += region.bytes;
  return true;
}

void Regions::Remove(std::size_t index) {
  bytes_[entries_[index].device] -= entries_[index].bytes;
  --size_;
  std::memmove(entries_ + index, entries_ + index + 1, (size_ - index) * sizeof(Region));
}

bool Regions::Take(std::uint64_t address, Region& region) {
  const std::size_t place = Before(address);
  if (place == 0 || entries_[place - 1].address != address) return false;
  region = entries_[place - 1];
  Remove(place - 1);
  return true;
}

bool Regions::TakeOneOf(std::uint64_t context, Region& region) {
  for (std::size_t i = size_; i-- > 0;) {
    if (entries_[i].context != context) continue;
    region = entries_[i];
    Remove(i);
    return true;
  }
  return false;
}

const Region* Regions::Find(std::uint64_t address) const {
  const std::size_t place = Before(address);
  if (place == 0) return nullptr;
  const Region& region = entries_[place - 1];
  return address - region.address < region.size ? &region : nullptr;
}

void Regions::SetAccess(std::uint64_t address, std::uint64_t readers, std::uint64_t writers) {
  const std::size_t place = Before(address);
  if (place == 0 || entries_[place - 1].address != address) return;
  entries_[place - 1].readers = readers;
  entries_[place - 1].writers = writers;
}

void Regions::Reset() {
  if (entries_ != nullptr) ::munmap(entries_, capacity_ * sizeof(Region));
  entries_ = nullptr;
  capacity_ = size_ = 0;
  std::memset(bytes_, 0, sizeof bytes_);
}

}  // namespace gpuman::shim
