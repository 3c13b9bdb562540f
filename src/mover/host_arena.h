// The host memory of one transfer (gpu_transfer.h): segments from the pool, and which parts of them are in
// use.
//
// A part belongs to whoever has its extent, until Free. A segment without a part in use goes back to the
// pool. Parts begin and end at whole chunks, so that each chunk of a piece lies in one extent. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "mover/layout.h"
#include "mover/segments.h"

namespace gpuman::mover {

struct Extent {
  const Segment* segment = nullptr;  // lives as long as the extent is in use
  std::uint64_t in_segment = 0, bytes = 0;

  std::uint8_t* at() const { return segment->at() + in_segment; }
};
// What holds one piece: its bytes lie in the order of the extents, which may be larger than the piece.
using Extents = std::vector<Extent>;

std::uint64_t BytesOf(const Extents& extents);
// Takes extents of so many bytes, rounded up to whole chunks, from the front of the list. nullopt: the list
// has fewer bytes.
std::optional<Extents> TakeFirst(Extents& extents, std::uint64_t bytes);

// The segments in which these extents lie, each segment once.
std::vector<const Segment*> SegmentsOf(const std::vector<Extents>& all);
// Writes the segments and slices of the layout: `all` has the extents of its pieces, in the order of the
// pieces.
void DescribeExtents(const std::vector<Extents>& all, Layout& layout);

class HostArena {
 public:
  explicit HostArena(SegmentPool& pool) : pool_(pool) {}
  // Data in use stay the process's, which has descriptors of the segments.
  ~HostArena() = default;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  // So many bytes, rounded up to whole chunks: of what is free, and of new segments near that GPU.
  // kExhausted: there is too little host memory.
  base::Result<Extents> Allocate(int gpu, std::uint64_t bytes);
  void Free(const Extents& extents);

  // Takes over what an earlier mover made, by the layout that its page names: returns each piece's extents. A
  // segment that an earlier page named as well is there already. kCorrupt: two pieces lie in the same place.
  base::Result<std::vector<Extents>> Adopt(std::vector<Segment> segments, const Layout& layout);

 private:
  using Parts = std::map<std::uint64_t, std::uint64_t>;  // bytes, by where they begin; no two are neighbours
  struct Entry {
    Segment segment;
    Parts free;
  };
  void TakeFree(std::uint64_t bytes, Extents& extents);
  base::Result<> Occupy(Entry& entry, std::uint64_t begin, std::uint64_t bytes);
  void FreePart(const Extent& extent);
  std::vector<Segment> TakeUnused();

  SegmentPool& pool_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // guarded by mutex_; extents point to its segments
};

}  // namespace gpuman::mover
