// Where each piece of a process's device memory goes in host memory, and the page that records this: from
// that page a new mover, also one of a new daemon, knows what the segments hold.
//
// Pieces lie one after the other in segments, which are files without a name. Values; the functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::mover {

struct Piece {
  std::uint64_t address = 0;  // in the process's address space
  std::uint64_t bytes = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

struct SegmentName {
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};

struct Layout {
  base::ProcessId process;
  std::string gpu;  // the UUID of the GPU that the memory was on
  std::vector<Piece> pieces;
  std::vector<SegmentName> segments;
  friend bool operator==(const Layout&, const Layout&) = default;
};

// One copy: within one piece of the device's memory and one segment of the host's.
struct Slice {
  std::size_t piece, segment;
  std::uint64_t in_piece, in_segment, bytes;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// The sizes of segments that hold so many bytes: as many of 1 GiB as fit, and small ones of 64 MiB for the
// rest.
inline constexpr std::uint64_t kSegment = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kSmallSegment = std::uint64_t{64} << 20;
std::vector<std::uint64_t> SegmentSizes(std::uint64_t bytes);

std::uint64_t BytesOf(std::span<const Piece> pieces);
// Places pieces, in the order in which they come, one after the other into segments of these sizes.
class Cutter {
 public:
  explicit Cutter(std::vector<std::uint64_t> segments) : segments_(std::move(segments)) {}
  // Appends the next piece's slices. False: there is no room for all of it.
  bool Cut(std::uint64_t bytes, std::vector<Slice>& slices);

 private:
  std::vector<std::uint64_t> segments_;
  std::size_t piece_ = 0, segment_ = 0;
  std::uint64_t in_segment_ = 0;
};

// The result is empty where the segments are too small.
std::vector<Slice> SlicesOf(const Layout& layout);

// What the segments hold, in the first word of the page: the content in its low two bits; above them how many
// of the pieces, from the first on, are whole.
enum class Content : std::uint32_t { kEmpty = 0, kFilling = 1, kComplete = 2 };

// The part of the page after its first word. kCorrupt for text that is not a complete output of
// SerializeLayout.
std::string SerializeLayout(const Layout& layout);
base::Result<Layout> ParseLayout(std::string_view text);

}  // namespace gpuman::mover
