// Where each piece of a process's device memory is in host memory, and the page that records this: from that
// page a new mover, also one of a new daemon, knows what the segments hold.
//
// Segments are files without a name; a piece lies in one or more slices of them. Values; the functions are
// pure.
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

// A part of one piece, and where it is.
struct PieceExtent {
  std::uint64_t piece = 0, segment = 0;  // places in the layout's lists
  std::uint64_t in_piece = 0, in_segment = 0, bytes = 0;
  friend bool operator==(const PieceExtent&, const PieceExtent&) = default;
};

struct Layout {
  base::ProcessId process;
  std::string gpu;  // the UUID of the GPU that the memory was on
  std::vector<Piece> pieces;
  std::vector<SegmentName> segments;
  std::vector<PieceExtent>
      slices;  // of the first piece, of the second, and so on; each piece's in order, without a gap
  friend bool operator==(const Layout&, const Layout&) = default;
};

// The sizes of segments that hold so many bytes: as many of 1 GiB as fit, and small ones of 64 MiB for the
// rest.
inline constexpr std::uint64_t kSegment = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kSmallSegment = std::uint64_t{64} << 20;
std::vector<std::uint64_t> SegmentSizes(std::uint64_t bytes);

std::uint64_t BytesOf(std::span<const Piece> pieces);
// What the segments hold, in the first word of the page: the content in its low two bits; above them how many
// of the pieces, from the first on, are whole.
enum class FillState : std::uint32_t { kEmpty = 0, kFilling = 1, kComplete = 2 };

// The part of the page after its first word. kCorrupt for text that does not begin with a complete output of
// SerializeLayout. Reads also what movers before 0.2 wrote: no slices, and one piece after the other.
std::string SerializeLayout(const Layout& layout);
base::Result<Layout> ParseLayout(std::string_view text);

}  // namespace gpuman::mover
