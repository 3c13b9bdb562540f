#include "mover/layout.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::uint32_t kMagic = 0x324d5047;        // "GPM2"
constexpr std::uint32_t kFirstFormat = 0x474d5047;  // "GPMG": without slices
constexpr std::uint64_t kMaxEntries = 1 << 20;      // pieces, segments, or slices
constexpr std::size_t kUuid = 48;

struct FixedFirst {
  std::uint32_t magic, pid;
  std::uint64_t start_time, pieces, segments, checksum;  // of what follows
  char gpu[kUuid];
};

struct Fixed {
  std::uint32_t magic, pid;
  std::uint64_t start_time, pieces, segments, slices, checksum;  // of what follows
  char gpu[kUuid];
};

template <typename Value>
void Append(std::string& text, const Value& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename Value>
std::vector<Value> TakeAll(std::string_view& text, std::size_t count) {
  std::vector<Value> values(count);
  if (count != 0) std::memcpy(values.data(), text.data(), count * sizeof(Value));
  text.remove_prefix(count * sizeof(Value));
  return values;
}

}  // namespace

std::vector<std::uint64_t> SegmentSizes(std::uint64_t bytes) {
  std::vector<std::uint64_t> sizes(bytes / kSegment, kSegment);
  const std::uint64_t rest = bytes % kSegment;
  sizes.insert(sizes.end(), (rest + kSmallSegment - 1) / kSmallSegment, kSmallSegment);
  return sizes;
}

std::uint64_t BytesOf(std::span<const Piece> pieces) {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes;
  return sum;
}

std::string SerializeLayout(const Layout& layout) {
  std::string lists;
  for (const Piece& piece : layout.pieces) Append(lists, piece);
  for (const SegmentName& segment : layout.segments) Append(lists, segment);
  for (const PieceExtent& slice : layout.slices) Append(lists, slice);
  Fixed fixed{};
  fixed.magic = kMagic;
  fixed.pid = static_cast<std::uint32_t>(layout.process.pid);
  fixed.start_time = layout.process.start_time;
  fixed.pieces = layout.pieces.size();
  fixed.segments = layout.segments.size();
  fixed.slices = layout.slices.size();
  fixed.checksum = base::Fnv1a(lists);
  layout.gpu.copy(fixed.gpu, kUuid - 1);
  std::string text;
  Append(text, fixed);
  return text + lists;
}

namespace {

// Of pieces that lie one after the other. Empty where the segments are too small.
std::vector<PieceExtent> SlicesOneAfterTheOther(const Layout& layout) {
  std::vector<PieceExtent> slices;
  std::size_t segment = 0;
  std::uint64_t in_segment = 0;
  for (std::size_t piece = 0; piece < layout.pieces.size(); ++piece) {
    for (std::uint64_t done = 0; done < layout.pieces[piece].bytes;) {
      if (segment == layout.segments.size()) return {};
      const std::uint64_t bytes =
          std::min(layout.pieces[piece].bytes - done, layout.segments[segment].bytes - in_segment);
      if (bytes != 0) slices.push_back({piece, segment, done, in_segment, bytes});
      done += bytes;
      in_segment += bytes;
      if (in_segment < layout.segments[segment].bytes) continue;
      ++segment;
      in_segment = 0;
    }
  }
  return slices;
}

// Whether the slices hold each piece whole and in order, within the segments.
bool SlicesFit(const Layout& layout) {
  std::size_t piece = 0;
  std::uint64_t done = 0;
  const auto finish = [&] {
    for (; piece < layout.pieces.size() && done == layout.pieces[piece].bytes; ++piece) done = 0;
  };
  finish();
  for (const PieceExtent& slice : layout.slices) {
    if (piece == layout.pieces.size() || slice.piece != piece || slice.in_piece != done || slice.bytes == 0 ||
        slice.bytes > layout.pieces[piece].bytes - done || slice.segment >= layout.segments.size())
      return false;
    const std::uint64_t room = layout.segments[slice.segment].bytes;
    if (slice.bytes > room || slice.in_segment > room - slice.bytes) return false;
    done += slice.bytes;
    finish();
  }
  return piece == layout.pieces.size();
}

// The process may have forged the page: a sum that overflows must not pass as a small sum.
template <typename Entry>
bool AddsUp(const std::vector<Entry>& list) {
  std::uint64_t sum = 0;
  return std::ranges::all_of(list,
                             [&](const auto& one) { return !__builtin_add_overflow(sum, one.bytes, &sum); });
}

auto Damaged() { return Fail(ErrorCode::kCorrupt, "the layout of a process's memory is damaged"); }

// `fixed` begins the text. What follows the lists is not the layout's.
template <typename Head>
Result<Layout> ParseLists(std::string_view text, std::uint64_t slices) {
  Head fixed{};
  if (text.size() < sizeof fixed) return Damaged();
  std::memcpy(&fixed, text.data(), sizeof fixed);
  text.remove_prefix(sizeof fixed);
  if (fixed.pieces > kMaxEntries || fixed.segments > kMaxEntries || slices > kMaxEntries) return Damaged();
  const std::uint64_t size =
      fixed.pieces * sizeof(Piece) + fixed.segments * sizeof(SegmentName) + slices * sizeof(PieceExtent);
  if (text.size() < size) return Damaged();
  text = text.substr(0, size);
  if (base::Fnv1a(text) != fixed.checksum) return Damaged();
  Layout layout;
  layout.process = {static_cast<pid_t>(fixed.pid), fixed.start_time};
  layout.gpu.assign(fixed.gpu, ::strnlen(fixed.gpu, kUuid));
  layout.pieces = TakeAll<Piece>(text, fixed.pieces);
  layout.segments = TakeAll<SegmentName>(text, fixed.segments);
  layout.slices = TakeAll<PieceExtent>(text, slices);
  if (!AddsUp(layout.pieces) || !AddsUp(layout.segments)) return Damaged();
  return layout;
}

}  // namespace

Result<Layout> ParseLayout(std::string_view text) {
  std::uint32_t magic = 0;
  if (text.size() >= sizeof magic) std::memcpy(&magic, text.data(), sizeof magic);
  if (magic == kFirstFormat) {
    GPUMAN_ASSIGN(Layout layout, ParseLists<FixedFirst>(text, 0));
    layout.slices = SlicesOneAfterTheOther(layout);
    return SlicesFit(layout) ? Result<Layout>(std::move(layout)) : Damaged();
  }
  Fixed fixed{};
  if (magic != kMagic || text.size() < sizeof fixed) return Damaged();
  std::memcpy(&fixed, text.data(), sizeof fixed);
  GPUMAN_ASSIGN(Layout layout, ParseLists<Fixed>(text, fixed.slices));
  return SlicesFit(layout) ? Result<Layout>(std::move(layout)) : Damaged();
}

}  // namespace gpuman::mover
