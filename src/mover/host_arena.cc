#include "mover/host_arena.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "mover/chunk_hash.h"

namespace gpuman::mover {
namespace {

using base::Result;

std::uint64_t WholeChunks(std::uint64_t bytes) { return (bytes + kChunk - 1) / kChunk * kChunk; }

}  // namespace

std::uint64_t BytesOf(const Extents& extents) {
  std::uint64_t sum = 0;
  for (const Extent& extent : extents) sum += extent.bytes;
  return sum;
}

std::optional<Extents> TakeFirst(Extents& extents, std::uint64_t bytes) {
  std::uint64_t missing = WholeChunks(bytes);
  if (BytesOf(extents) < missing) return std::nullopt;
  Extents first;
  auto from = extents.begin();
  while (missing != 0) {
    const std::uint64_t some = std::min(from->bytes, missing);
    first.push_back({from->segment, from->in_segment, some});
    missing -= some;
    from->in_segment += some;
    from->bytes -= some;
    if (from->bytes == 0) ++from;
  }
  extents.erase(extents.begin(), from);
  return first;
}

std::vector<const Segment*> SegmentsOf(const std::vector<Extents>& all) {
  std::vector<const Segment*> segments;
  std::set<const Segment*> seen;
  for (const Extents& extents : all)
    for (const Extent& extent : extents)
      if (seen.insert(extent.segment).second) segments.push_back(extent.segment);
  return segments;
}

void DescribeExtents(const std::vector<Extents>& all, Layout& layout) {
  std::map<const Segment*, std::uint64_t> numbers;
  for (const Segment* const segment : SegmentsOf(all)) {
    numbers.emplace(segment, layout.segments.size());
    layout.segments.push_back({segment->inode(), segment->bytes()});
  }
  for (std::size_t piece = 0; piece < all.size(); ++piece) {
    std::uint64_t done = 0;
    for (const Extent& extent : all[piece]) {
      const std::uint64_t bytes = std::min(extent.bytes, layout.pieces[piece].bytes - done);
      layout.slices.push_back({piece, numbers.at(extent.segment), done, extent.in_segment, bytes});
      done += bytes;
    }
  }
}

// mutex_ is held.
void HostArena::TakeFree(std::uint64_t bytes, Extents& extents) {
  for (Entry& entry : entries_) {
    while (bytes != 0 && !entry.free.empty()) {
      const auto [begin, free] = *entry.free.begin();
      const std::uint64_t some = std::min(free, bytes);
      entry.free.erase(entry.free.begin());
      if (some < free) entry.free.emplace(begin + some, free - some);
      extents.push_back({&entry.segment, begin, some});
      bytes -= some;
    }
  }
}

Result<Extents> HostArena::Allocate(int gpu, std::uint64_t bytes) {
  const std::uint64_t wanted = WholeChunks(bytes);
  Extents extents;
  {
    const std::lock_guard lock(mutex_);
    TakeFree(wanted, extents);
  }
  const std::uint64_t missing = wanted - BytesOf(extents);
  if (missing == 0) return extents;
  auto made = pool_.Take(gpu, SegmentSizes(missing));
  if (!made) {
    Free(extents);
    return base::Fail(made.error());
  }
  const std::lock_guard lock(mutex_);
  std::uint64_t left = missing;
  for (Segment& segment : *made) {
    Entry& entry = entries_.emplace_back(Entry{std::move(segment), {}});
    const std::uint64_t some = std::min(entry.segment.bytes(), left);
    extents.push_back({&entry.segment, 0, some});
    left -= some;
    if (some < entry.segment.bytes()) entry.free.emplace(some, entry.segment.bytes() - some);
  }
  return extents;
}

// mutex_ is held.
void HostArena::FreePart(const Extent& extent) {
  const auto entry =
      std::ranges::find(entries_, extent.segment, [](const Entry& one) { return &one.segment; });
  Parts& free = entry->free;
  std::uint64_t begin = extent.in_segment, bytes = extent.bytes;
  auto next = free.lower_bound(begin);
  if (next != free.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  free.emplace_hint(next, begin, bytes);
}

// mutex_ is held.
std::vector<Segment> HostArena::TakeUnused() {
  std::vector<Segment> unused;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto& free = it->free;
    const bool used = free.size() != 1 || free.begin()->second != it->segment.bytes();
    if (!used) unused.push_back(std::move(it->segment));
    it = used ? std::next(it) : entries_.erase(it);
  }
  return unused;
}

void HostArena::Free(const Extents& extents) {
  std::vector<Segment> unused;
  {
    const std::lock_guard lock(mutex_);
    for (const Extent& extent : extents) FreePart(extent);
    unused = TakeUnused();
  }
  pool_.Give(std::move(unused));
}

// mutex_ is held.
Result<> HostArena::Occupy(Entry& entry, std::uint64_t begin, std::uint64_t bytes) {
  auto part = entry.free.upper_bound(begin);
  if (part == entry.free.begin() || (--part, part->first + part->second < begin + bytes))
    return base::Fail(base::ErrorCode::kCorrupt, "two pieces of a process's memory lie in the same place");
  const auto [from, free] = *part;
  entry.free.erase(part);
  if (from < begin) entry.free.emplace(from, begin - from);
  if (begin + bytes < from + free) entry.free.emplace(begin + bytes, from + free - begin - bytes);
  return {};
}

Result<std::vector<Extents>> HostArena::Adopt(std::vector<Segment> segments, const Layout& layout) {
  std::vector<Extents> all(layout.pieces.size());
  Result<> occupied;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Entry*> named;
    for (Segment& segment : segments) {
      auto known =
          std::ranges::find(entries_, segment.inode(), [](const Entry& one) { return one.segment.inode(); });
      if (known == entries_.end()) {
        const std::uint64_t bytes = segment.bytes();
        known = entries_.insert(known, Entry{std::move(segment), {{0, bytes}}});
      }
      named.push_back(&*known);
    }
    for (const PieceExtent& slice : layout.slices) {
      occupied = Occupy(*named[slice.segment], slice.in_segment, slice.bytes);
      if (!occupied) break;
      all[slice.piece].push_back({&named[slice.segment]->segment, slice.in_segment, slice.bytes});
    }
  }
  if (occupied) return all;
  for (const Extents& extents : all) Free(extents);
  return base::Fail(occupied.error());
}

}  // namespace gpuman::mover
