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

std::uint64_t BytesOf(const Place& place) {
  std::uint64_t sum = 0;
  for (const Extent& extent : place) sum += extent.bytes;
  return sum;
}

std::optional<Place> TakeFirst(Place& place, std::uint64_t bytes) {
  std::uint64_t missing = WholeChunks(bytes);
  if (BytesOf(place) < missing) return std::nullopt;
  Place first;
  auto from = place.begin();
  while (missing != 0) {
    const std::uint64_t some = std::min(from->bytes, missing);
    first.push_back({from->segment, from->in_segment, some});
    missing -= some;
    from->in_segment += some;
    from->bytes -= some;
    if (from->bytes == 0) ++from;
  }
  place.erase(place.begin(), from);
  return first;
}

std::vector<const Segment*> SegmentsOf(const std::vector<Place>& places) {
  std::vector<const Segment*> segments;
  std::set<const Segment*> seen;
  for (const Place& place : places)
    for (const Extent& extent : place)
      if (seen.insert(extent.segment).second) segments.push_back(extent.segment);
  return segments;
}

void DescribePlaces(const std::vector<Place>& places, Layout& layout) {
  std::map<const Segment*, std::uint64_t> numbers;
  for (const Segment* const segment : SegmentsOf(places)) {
    numbers.emplace(segment, layout.segments.size());
    layout.segments.push_back({segment->inode(), segment->bytes()});
  }
  for (std::size_t piece = 0; piece < places.size(); ++piece) {
    std::uint64_t done = 0;
    for (const Extent& extent : places[piece]) {
      const std::uint64_t bytes = std::min(extent.bytes, layout.pieces[piece].bytes - done);
      layout.slices.push_back({piece, numbers.at(extent.segment), done, extent.in_segment, bytes});
      done += bytes;
    }
  }
}

// mutex_ is held.
void HostArena::TakeFree(std::uint64_t bytes, Place& place) {
  for (Entry& entry : entries_) {
    while (bytes != 0 && !entry.free.empty()) {
      const auto [begin, free] = *entry.free.begin();
      const std::uint64_t some = std::min(free, bytes);
      entry.free.erase(entry.free.begin());
      if (some < free) entry.free.emplace(begin + some, free - some);
      place.push_back({&entry.segment, begin, some});
      bytes -= some;
    }
  }
}

Result<Place> HostArena::Allocate(int gpu, std::uint64_t bytes) {
  const std::uint64_t wanted = WholeChunks(bytes);
  Place place;
  {
    const std::lock_guard lock(mutex_);
    TakeFree(wanted, place);
  }
  const std::uint64_t missing = wanted - BytesOf(place);
  if (missing == 0) return place;
  auto made = pool_.Take(gpu, SegmentSizes(missing));
  if (!made) {
    Free(place);
    return base::Fail(made.error());
  }
  const std::lock_guard lock(mutex_);
  std::uint64_t left = missing;
  for (Segment& segment : *made) {
    Entry& entry = entries_.emplace_back(Entry{std::move(segment), {}});
    const std::uint64_t some = std::min(entry.segment.bytes(), left);
    place.push_back({&entry.segment, 0, some});
    left -= some;
    if (some < entry.segment.bytes()) entry.free.emplace(some, entry.segment.bytes() - some);
  }
  return place;
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

void HostArena::Free(const Place& place) {
  std::vector<Segment> unused;
  {
    const std::lock_guard lock(mutex_);
    for (const Extent& extent : place) FreePart(extent);
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

Result<std::vector<Place>> HostArena::Adopt(std::vector<Segment> segments, const Layout& layout) {
  std::vector<Place> places(layout.pieces.size());
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
    for (const Slice& slice : layout.slices) {
      occupied = Occupy(*named[slice.segment], slice.in_segment, slice.bytes);
      if (!occupied) break;
      places[slice.piece].push_back({&named[slice.segment]->segment, slice.in_segment, slice.bytes});
    }
  }
  if (occupied) return places;
  for (const Place& place : places) Free(place);
  return base::Fail(occupied.error());
}

}  // namespace gpuman::mover
