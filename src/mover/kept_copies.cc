#include "mover/kept_copies.h"

#include <algorithm>
#include <utility>

namespace gpuman::mover {

void KeptCopiesBudget::Add(KeptCopies* copies) {
  const std::lock_guard lock(mutex_);
  all_.insert(copies);
}

void KeptCopiesBudget::Remove(KeptCopies* copies) {
  std::unique_lock lock(mutex_);
  all_.erase(copies);
  ++copies->waiting_;
  checked_.wait(lock, [&] { return in_check_ != copies; });
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

std::optional<KeptCopiesBudget::CheckedCopy> KeptCopiesBudget::CheckOldest(
    const HashKey& key, Clock::time_point due, const std::function<bool()>& go_on) {
  KeptCopies* copies = nullptr;
  const KeptCopies::Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto oldest = std::ranges::min_element(all_, {}, &KeptCopies::OldestCheck);
    if (oldest == all_.end() || (*oldest)->OldestCheck() >= due) return std::nullopt;
    copies = *oldest;
    entry = copies->BeginCheck();
    if (entry == nullptr) return std::nullopt;
    in_check_ = copies;
  }
  CheckedCopy result;
  std::vector<std::size_t> damaged;
  bool whole = true;
  for (const SkippedChunk& chunk : SkippedChunks({}, entry->copy)) {
    if (chunk.zero) continue;
    whole = copies->waiting_ == 0 && (result.chunks == 0 || go_on());
    if (!whole) break;
    ++result.chunks;
    if (HashOf(key, static_cast<const std::uint8_t*>(chunk.copy.host)) !=
        entry->copy.chunks[chunk.chunk].hash)
      damaged.push_back(chunk.chunk);
  }
  result.damaged = damaged.size();
  copies->EndCheck(damaged, whole);
  const std::lock_guard lock(mutex_);
  in_check_ = nullptr;
  checked_.notify_all();
  return result;
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
    // Its chunks had their hashes on the GPU a moment ago, when they came back.
    entries_.emplace(address, Entry{std::move(copy), next_++, Clock::now(), false});
  }
  budget_.HoldLimit();
}

// `lock` is of mutex_, and is given up while the copy is read: for one chunk at most.
std::optional<HostCopy> KeptCopies::Take(std::unique_lock<std::mutex>& lock, std::uint64_t address) {
  auto found = entries_.find(address);
  if (found != entries_.end() && found->second.in_check) {
    ++waiting_;
    check_ended_.wait(lock, [&] {
      found = entries_.find(address);
      return found == entries_.end() || !found->second.in_check;
    });
    --waiting_;
  }
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
    std::unique_lock lock(mutex_);
    copy = Take(lock, address);
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
    std::unique_lock lock(mutex_);
    if (!by_age_.empty()) copy = Take(lock, by_age_.begin()->second);
  }
  if (!copy) return 0;
  arena_.Free(copy->extents);
  return BytesOf(copy->extents);
}

void KeptCopies::DropAll() {
  while (DropOldest() != 0) {
  }
}

KeptCopies::Clock::time_point KeptCopies::OldestCheck() const {
  const std::lock_guard lock(mutex_);
  auto oldest = Clock::time_point::max();
  for (const auto& [address, entry] : entries_) oldest = std::min(oldest, entry.checked);
  return oldest;
}

const KeptCopies::Entry* KeptCopies::BeginCheck() {
  const std::lock_guard lock(mutex_);
  const auto oldest =
      std::ranges::min_element(entries_, {}, [](const auto& one) { return one.second.checked; });
  if (oldest == entries_.end()) return nullptr;
  oldest->second.in_check = true;
  return &oldest->second;
}

// `damaged`: chunks of the copy that is in check. `whole`: all of it was read.
void KeptCopies::EndCheck(const std::vector<std::size_t>& damaged, bool whole) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [](const auto& one) { return one.second.in_check; });
  Entry& entry = found->second;
  for (const std::size_t chunk : damaged) entry.copy.chunks[chunk] = {};
  if (whole) entry.checked = Clock::now();
  entry.in_check = false;
  check_ended_.notify_all();
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
