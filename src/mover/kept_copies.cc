#include "mover/kept_copies.h"

#include <algorithm>
#include <utility>

namespace gpuman::mover {

void KeptCopiesBudget::Add(KeptCopies* copies) {
  const std::lock_guard lock(mutex_);
  all_.insert(copies);
}

void KeptCopiesBudget::Remove(KeptCopies* copies) {
  const std::lock_guard lock(mutex_);
  all_.erase(copies);
}

std::uint64_t KeptCopiesBudget::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const KeptCopies* const one : all_) sum += one->bytes();
  return sum;
}

void KeptCopiesBudget::SetLimit(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }
  HoldLimit();
}

void KeptCopiesBudget::HoldLimit() {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const KeptCopies* const one : all_) sum += one->bytes();
  if (sum > limit_) (void)GiveWayLocked(sum - limit_);
}

bool KeptCopiesBudget::GiveWay(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  return GiveWayLocked(bytes);
}

bool KeptCopiesBudget::GiveWayLocked(std::uint64_t bytes) {
  std::uint64_t dropped = 0;
  while (dropped < bytes) {
    const auto least = std::ranges::max_element(
        all_, {}, [](const KeptCopies* one) { return one->bytes() == 0 ? -1.0 : one->changed(); });
    if (least == all_.end() || (*least)->bytes() == 0) break;
    dropped += (*least)->DropOldest();
  }
  return dropped != 0;
}

KeptCopies::KeptCopies(KeptCopiesBudget& budget, HostArena& arena) : budget_(budget), arena_(arena) {
  budget_.Add(this);
}

KeptCopies::~KeptCopies() { budget_.Remove(this); }

void KeptCopies::Keep(std::uint64_t address, HostCopy copy) {
  (void)Claim(address, 0);
  {
    const std::lock_guard lock(mutex_);
    bytes_ += BytesOf(copy.extents);
    by_age_.emplace(next_, address);
    entries_.emplace(address, Entry{std::move(copy), next_++});
  }
  budget_.HoldLimit();
}

// mutex_ is held.
std::optional<HostCopy> KeptCopies::Take(std::uint64_t address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return std::nullopt;
  HostCopy copy = std::move(found->second.copy);
  by_age_.erase(found->second.kept);
  entries_.erase(found);
  bytes_ -= BytesOf(copy.extents);
  return copy;
}

std::optional<HostCopy> KeptCopies::Claim(std::uint64_t address, std::uint64_t bytes) {
  std::optional<HostCopy> copy;
  {
    const std::lock_guard lock(mutex_);
    copy = Take(address);
  }
  if (!copy || copy->bytes == bytes) return copy;
  arena_.Free(copy->extents);
  return std::nullopt;
}

void KeptCopies::SetChanged(std::uint64_t copied, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes != 0) changed_ = static_cast<double>(copied) / static_cast<double>(bytes);
}

std::uint64_t KeptCopies::DropOldest() {
  std::optional<HostCopy> copy;
  {
    const std::lock_guard lock(mutex_);
    if (!by_age_.empty()) copy = Take(by_age_.begin()->second);
  }
  if (!copy) return 0;
  arena_.Free(copy->extents);
  return BytesOf(copy->extents);
}

void KeptCopies::DropAll() {
  while (DropOldest() != 0) {
  }
}

std::uint64_t KeptCopies::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

double KeptCopies::changed() const {
  const std::lock_guard lock(mutex_);
  return changed_;
}

}  // namespace gpuman::mover
