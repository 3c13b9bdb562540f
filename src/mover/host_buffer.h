// One process's data in host memory: its segments and the page that says what they hold. The process has
// descriptors of all of them; a mover that finds them there can go on with them.
//
// The process can write the page at any moment, and may be anybody's. So the page is read once, when it is
// found, and its content is checked; from then on the values here count, and the page is only written.
#pragma once

#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mover/layout.h"
#include "mover/segments.h"

namespace gpuman::mover {

// Move-only; thread-compatible.
class HostBuffer {
 public:
  // For data that is about to come, in pieces that Seal will name; the segments come from the pool.
  static base::Result<HostBuffer> Make(std::vector<Segment> segments);
  // Writes to the page what the pieces are, and kFilling. The layout has these segments.
  base::Result<> Seal(Layout layout);
  // All buffers of a process that an earlier mover served; waits while that mover is still at work.
  // kNotFound: the process has none. kCorrupt: the data are lost.
  static base::Result<std::vector<HostBuffer>> Find(const base::ProcessId& process);

  const Layout& layout() const { return layout_; }
  const std::vector<Segment>& segments() const { return segments_; }
  int page() const { return page_.get(); }
  Content content() const { return content_; }
  void Become(Content content);
  // How many of the pieces, from the first on, are whole.
  std::size_t whole() const { return content_ == Content::kComplete ? layout_.pieces.size() : whole_; }
  void SetWhole(std::size_t pieces);
  std::uint8_t* At(const Slice& slice) const { return segments_[slice.segment].at() + slice.in_segment; }
  std::vector<Segment> Empty() &&;

 private:
  HostBuffer() = default;
  void ReadWord();
  static base::Result<> OpenSegments(HostBuffer& found, std::vector<base::Fd>& files);
  Layout layout_;
  Content content_ = Content::kEmpty;
  std::size_t whole_ = 0;
  std::vector<Segment> segments_;
  base::Fd page_;
  base::Fd at_work_;  // an open file description of its own, with a lock while a mover may fill
};

}  // namespace gpuman::mover
