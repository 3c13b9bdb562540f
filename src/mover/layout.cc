#include "mover/layout.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::uint32_t kMagic = 0x474d5047;    // "GPMG"
constexpr std::uint64_t kMaxEntries = 1 << 20;  // pieces, or segments
constexpr std::size_t kUuid = 48;

struct Fixed {
  std::uint32_t magic, pid;
  std::uint64_t start_time, pieces, segments, checksum;  // of what follows
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

bool Cutter::Cut(std::uint64_t piece, std::vector<Slice>& slices) {
  for (std::uint64_t done = 0; done < piece;) {
    if (segment_ == segments_.size()) return false;
    const std::uint64_t bytes = std::min(piece - done, segments_[segment_] - in_segment_);
    if (bytes != 0) slices.push_back({piece_, segment_, done, in_segment_, bytes});
    done += bytes;
    in_segment_ += bytes;
    if (in_segment_ < segments_[segment_]) continue;
    ++segment_;
    in_segment_ = 0;
  }
  ++piece_;
  return true;
}

std::vector<Slice> SlicesOf(const Layout& layout) {
  std::vector<std::uint64_t> sizes;
  for (const SegmentName& segment : layout.segments) sizes.push_back(segment.bytes);
  Cutter cutter(std::move(sizes));
  std::vector<Slice> slices;
  for (const Piece& piece : layout.pieces)
    if (!cutter.Cut(piece.bytes, slices)) return {};
  return slices;
}

std::string SerializeLayout(const Layout& layout) {
  std::string lists;
  for (const Piece& piece : layout.pieces) Append(lists, piece);
  for (const SegmentName& segment : layout.segments) Append(lists, segment);
  Fixed fixed{};
  fixed.magic = kMagic;
  fixed.pid = static_cast<std::uint32_t>(layout.process.pid);
  fixed.start_time = layout.process.start_time;
  fixed.pieces = layout.pieces.size();
  fixed.segments = layout.segments.size();
  fixed.checksum = base::Fnv1a(lists);
  layout.gpu.copy(fixed.gpu, kUuid - 1);
  std::string text;
  Append(text, fixed);
  return text + lists;
}

Result<Layout> ParseLayout(std::string_view text) {
  const auto wrong = [] { return Fail(ErrorCode::kCorrupt, "the layout of a process's memory is damaged"); };
  Fixed fixed{};
  if (text.size() < sizeof fixed) return wrong();
  std::memcpy(&fixed, text.data(), sizeof fixed);
  text.remove_prefix(sizeof fixed);
  if (fixed.magic != kMagic || fixed.pieces > kMaxEntries || fixed.segments > kMaxEntries ||
      text.size() != fixed.pieces * sizeof(Piece) + fixed.segments * sizeof(SegmentName) ||
      base::Fnv1a(text) != fixed.checksum)
    return wrong();
  Layout layout;
  layout.process = {static_cast<pid_t>(fixed.pid), fixed.start_time};
  layout.gpu.assign(fixed.gpu, ::strnlen(fixed.gpu, kUuid));
  layout.pieces = TakeAll<Piece>(text, fixed.pieces);
  layout.segments = TakeAll<SegmentName>(text, fixed.segments);
  // The process may have forged the page: a sum that overflows must not pass as a small sum.
  const auto adds_up = [](const auto& list) {
    std::uint64_t sum = 0;
    return std::ranges::all_of(
        list, [&](const auto& one) { return !__builtin_add_overflow(sum, one.bytes, &sum); });
  };
  if (!adds_up(layout.pieces) || !adds_up(layout.segments)) return wrong();
  if (SlicesOf(layout).empty() && BytesOf(layout.pieces) != 0) return wrong();
  return layout;
}

}  // namespace gpuman::mover
