// One process's data in host memory: the segments, and the page that says what they hold. The process has
// descriptors of all of them; a later mover finds them in the process and can go on with them.
//
// The process can write the page at any moment, and is not trusted. So the mover reads the page only once,
// when it finds it, and checks its content; from then on the values in this object count, and the mover only
// writes the page.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mover/layout.h"
#include "mover/segments.h"

namespace gpuman::mover {

// Move-only; thread-compatible.
class HostBuffer {
 public:
  // A buffer for data that are about to come, in pieces that Seal will name; the segments come from the pool.
  static base::Result<HostBuffer> Make(std::vector<Segment> segments);
  // Writes the layout and Content::kFilling to the page. The layout's segments are those of this buffer.
  base::Result<> Seal(Layout layout);
  // All buffers of a process that an earlier mover served, but for those with a `known` page; waits while
  // that mover is still at work. kCorrupt: the data are lost.
  using Known = std::function<bool(std::uint64_t inode)>;
  static base::Result<std::vector<HostBuffer>> Find(const base::ProcessId& process, const Known& known);

  const Layout& layout() const { return layout_; }
  const std::vector<Segment>& segments() const { return segments_; }
  int page() const { return page_.get(); }
  std::uint64_t page_inode() const;
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
  base::Fd at_work_;  // its own open file description, locked while a mover may fill the buffer
};

}  // namespace gpuman::mover
